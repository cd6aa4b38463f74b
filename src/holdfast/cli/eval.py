"""``holdfast eval``: the designs behind the gRPC API, measured side by side."""

import argparse
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from holdfast.cli import values
from holdfast.cli.command import Commands, add_command, asynchronous
from holdfast.cli.database import add_json
from holdfast.cli.exits import Exit
from holdfast.cli.output import error_console, show_table
from holdfast.cli.streams import note, write_json
from holdfast.core.errors import ConfigError, UsageError
from holdfast.rpc.installed import require_grpc
from holdfast.wiring import without_password

if TYPE_CHECKING:
    from holdfast.designs.evaluation.speed_rows import Row

EXAMPLES: Final = """
holdfast eval                                       the quick profile: A, B and the durable engine, under two minutes
holdfast eval --profile full --wait 10m             wait until the machine is idle, at most ten minutes
holdfast eval --profile mine.toml:small --designs a,b
holdfast eval --address a=127.0.0.1:50051 --designs a,durable
holdfast eval --speed                               what is required of the speed, beside a bare echo
holdfast eval --report results/evaluation-full      write the report again, with what analysis.md says
"""
DESCRIPTION: Final = """Measure Design A, Design B and the durable engine with the same load, in turns, and write what
was found: results/NAME with samples, plots and a report in Markdown and HTML. Each design is started for it as
processes of its own, or reached at the addresses given. A run that would not be fair is refused. Exit code 1: it was,
or with --speed a requirement does not hold."""
DESIGN_KEYS: Final = ("a", "b", "durable", "durable-postgres")
DEFAULT_DESIGNS: Final = DESIGN_KEYS[:3]
DEFAULT_PROFILE: Final = "quick"
SPEED_ROUNDS: Final = 7
PACKAGES: Final = ("hdrh", "matplotlib")


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "eval",
        help="measure the gRPC designs side by side, and write a report",
        description=DESCRIPTION,
        examples=EXAMPLES,
        run=run,
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--profile", default=DEFAULT_PROFILE, metavar="NAME", help="quick, full, or FILE:NAME; default: quick"
    )
    what.add_argument("--speed", action="store_true", help="measure what is required, beside a bare echo")
    what.add_argument("--report", type=Path, metavar="FOLDER", help="measure nothing: write its report again")
    what.add_argument("--list", action="store_true", help="show the shipped profiles")
    parser.add_argument(
        "--designs",
        type=designs,
        metavar="A,B,…",
        help=f"of {', '.join(DESIGN_KEYS)}; default: {','.join(DEFAULT_DESIGNS)}, and those of --postgres, --address",
    )
    parser.add_argument(
        "--address",
        type=address,
        action="append",
        default=[],
        metavar="DESIGN=HOST:PORT,…",
        help="do not start this design: it is there (Design B: its six nodes, in their order)",
    )
    parser.add_argument(
        "--postgres", metavar="URL", help="the durable engine on this database, too: one with our tables and no jobs"
    )
    parser.add_argument("--rounds", type=values.positive, metavar="N", help="instead of the profile's; --speed: 7")
    parser.add_argument("--name", help="of the results; default: evaluation-PROFILE")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="FOLDER", help="default: results")
    parser.add_argument("--replace", action="store_true", help="replace results of that name with their analysis.md")
    parser.add_argument("--wait", type=values.seconds, default=0.0, metavar="TIME", help="for an idle machine, at most")
    parser.add_argument("--force", action="store_true", help="go on though it is not fair; the report says so")
    add_json(parser, what="where the results are, and the figures, as one JSON object")


def designs(text: str) -> list[str]:
    given = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [one for one in given if one not in DESIGN_KEYS]
    if unknown or not given or len(set(given)) < len(given):
        raise values.Refused(f"{text!r} are not designs; write some of {', '.join(DESIGN_KEYS)}, each once")
    return given


def address(text: str) -> tuple[str, list[str]]:
    design, _, given = text.partition("=")
    targets = [part.strip() for part in given.split(",")]
    if design not in DESIGN_KEYS or not all(re.fullmatch(r"\S+:\d{1,5}", target) for target in targets):
        raise values.Refused(f"{text!r} is not an address of a design; write a=127.0.0.1:50051")
    return design, targets


def run(arguments: argparse.Namespace) -> int:
    require_grpc("holdfast eval")
    if not all(find_spec(package) for package in PACKAGES):
        raise ConfigError("holdfast eval needs more packages; run: pip install 'holdfast[designs]'")
    if arguments.list:
        return _list(is_json=arguments.json)
    if arguments.report is not None:
        from holdfast.designs.evaluation.report import write_report

        write_report(arguments.report)
        return _said(arguments.report, [], is_json=arguments.json)
    return asynchronous(_speed if arguments.speed else _evaluate)(arguments)


def _list(*, is_json: bool) -> int:
    from holdfast.designs.evaluation.profiles import read_profiles

    profiles = read_profiles()
    if is_json:
        write_json({name: {"about": one.about, "rounds": one.rounds} for name, one in profiles.items()})
    else:
        rows = [[name, str(len(one.cells())), str(one.rounds), one.about] for name, one in profiles.items()]
        show_table(("Profile", ">Cells", ">Rounds", "About"), rows)
    return Exit.DONE


def chosen(arguments: argparse.Namespace) -> list[str]:
    """In the order of the help, whatever was given in which."""
    given: list[str] = arguments.designs or [*DEFAULT_DESIGNS, *(design for design, _ in arguments.address)]
    if arguments.postgres:
        given = [*given, "durable-postgres"]
    elif "durable-postgres" in given and "durable-postgres" not in dict(arguments.address):
        raise UsageError("durable-postgres needs its database: --postgres postgresql://user@host/database")
    return [design for design in DESIGN_KEYS if design in given]


def command_of(arguments: argparse.Namespace) -> str:
    """As it was given, without a password."""
    words = [without_password(word) if "://" in word else word for word in arguments.given]
    return shlex.join(["holdfast", *words])


async def _evaluate(arguments: argparse.Namespace) -> int:
    import msgspec

    from holdfast.designs.evaluation.folders import Folder
    from holdfast.designs.evaluation.profiles import find_profile
    from holdfast.designs.evaluation.run import Plan, evaluate
    from holdfast.designs.evaluation.systems import open_design

    profile_name, profile = find_profile(arguments.profile)
    if arguments.rounds is not None:
        profile = msgspec.structs.replace(profile, rounds=arguments.rounds)
    name, addresses = arguments.name or f"evaluation-{profile_name}", dict(arguments.address)
    plan = Plan(
        name=name,
        command=command_of(arguments),
        profile_name=profile_name,
        profile=profile,
        designs=chosen(arguments),
        addresses={design: given for design, given in addresses.items() if design in chosen(arguments)},
        force=arguments.force,
        patience_seconds=arguments.wait,
    )
    opening = partial(open_design, slots=profile.slots, urls=_urls(arguments), addresses=addresses)
    with watching(is_quiet=arguments.json) as watcher:
        folder = await evaluate(
            plan,
            open_design=opening,
            results=Folder(arguments.results, name, replace=arguments.replace),
            watcher=watcher,
        )
    return _said(folder, [], is_json=arguments.json)


async def _speed(arguments: argparse.Namespace) -> int:
    from holdfast.designs.evaluation.folders import Folder
    from holdfast.designs.evaluation.speed import measure_speed
    from holdfast.designs.evaluation.systems import open_design
    from holdfast.rpc.limits import TOTAL_WORKER_SLOTS

    if arguments.address:
        raise UsageError("--speed starts the designs itself, beside the echo; leave out --address")
    opening = partial(open_design, slots=TOTAL_WORKER_SLOTS, urls=_urls(arguments))
    with watching(is_quiet=arguments.json) as watcher:
        folder, rows = await measure_speed(
            open_design=opening,
            results=Folder(arguments.results, arguments.name or "evaluation-speed", replace=arguments.replace),
            watcher=watcher,
            designs=chosen(arguments),
            rounds=arguments.rounds or SPEED_ROUNDS,
            command=command_of(arguments),
            force=arguments.force,
            patience_seconds=arguments.wait,
        )
    return _said(folder, rows, is_json=arguments.json)


def _urls(arguments: argparse.Namespace) -> dict[str, str]:
    return {"durable-postgres": arguments.postgres} if arguments.postgres else {}


def _said(folder: Path, rows: "Sequence[Row]", *, is_json: bool) -> int:
    fails = any(row.holds is False for row in rows)
    if is_json:
        write_json({"results": str(folder), "holds": not fails, "rows": [row.data() for row in rows]})
    else:
        if rows:
            from holdfast.designs.evaluation.speed_report import HEAD, cells_of

            show_table([title.capitalize() for title in HEAD[:5]], [cells_of(row)[:5] for row in rows])
        note(f"the report is {folder / 'report.md'}, and as a page {folder / 'report.html'}")
    return Exit.NOT_DONE if fails else Exit.DONE


class Steps:
    """The progress bar; where there is no terminal, a line a step."""

    def __init__(self, progress: Progress, *, is_plain: bool) -> None:
        self._progress = progress
        self._is_plain = is_plain
        self._task = progress.add_task("is the machine idle?", total=None)
        self._done = -1

    def begin(self, steps: int) -> None:
        self._progress.update(self._task, total=steps, description="starting")

    def step(self, what: str) -> None:
        self._done += 1
        self._progress.update(self._task, completed=self._done, description=what)
        if self._is_plain:
            note(what)


@contextmanager
def watching(*, is_quiet: bool) -> Iterator[Steps]:
    screen = error_console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    is_live = screen.is_terminal and not is_quiet
    with Progress(*columns, TimeRemainingColumn(), console=screen, disable=not is_live, transient=True) as progress:
        yield Steps(progress, is_plain=not is_live and not is_quiet)
