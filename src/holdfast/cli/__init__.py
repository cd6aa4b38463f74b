"""The command line: one file a command."""

import argparse
import difflib
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

from holdfast.cli.command import Parser
from holdfast.cli.exits import MEANINGS, Exit, exit_of
from holdfast.cli.streams import finish, note, prepare
from holdfast.core.errors import HoldfastError

GROUPS: Final = {
    "your jobs": ("dev", "worker", "submit", "jobs", "job", "cancel", "replay", "dead", "cron"),
    "operate": ("top", "queues", "workers", "server", "keys", "migrate", "doctor"),
    "measure and compare": ("bench", "cluster", "eval"),
}
"""In the order of the help: first what a newcomer needs. Each command is a module beside this one."""
COMMANDS: Final = tuple(name for names in GROUPS.values() for name in names)
ENVIRONMENT: Final = {
    "HOLDFAST_URL": "the database: sqlite:///jobs.db, postgresql://user@host/database",
    "HOLDFAST_LOGS": "where execution logs are kept: a folder, s3://bucket/prefix, off",
    "HOLDFAST_KEY": "the API key that `keys check` is asked about",
    "NO_COLOR": "no colours",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and answer its exit code."""
    prepare()
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(given)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # `holdfast jobs | head`: the reader has what it wanted.
        return Exit.DONE
    except HoldfastError as error:
        note(" ".join(str(error).split()))
        return exit_of(error)
    finally:
        finish()


def _run(given: Sequence[str]) -> int:
    # Only what is asked for is loaded: a worker, say, draws no tables.
    is_known = bool(given) and given[0] in COMMANDS
    parser = build_parser(given[:1] if is_known else COMMANDS, is_brief=not is_known)
    if not given:
        parser.print_help(sys.stderr)
        return Exit.WRONG
    _require_command(parser, given[0])
    try:
        chosen = parser.parse_args(given)
        chosen.given = given
        answer: int = chosen.run(chosen)
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    return answer


def build_parser(names: Sequence[str] = COMMANDS, *, is_brief: bool = False) -> Parser:
    """``is_brief``: for the help of all commands, or to say that there is no such command."""
    parser = Parser(
        prog="holdfast",
        description="A job queue whose database is the truth.",
        epilog=_epilog(),
        formatter_class=GroupedHelp,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=Version, help="show the version and exit")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands", parser_class=Parser)
    for name in names:
        import_module(f"holdfast.cli.{name}").add_to(commands)
        late = commands.choices[name].late
        if late is not None and not is_brief:
            late()
    return parser


class GroupedHelp(argparse.RawDescriptionHelpFormatter):
    def _format_action(self, action: argparse.Action) -> str:
        text = super()._format_action(action)
        title = next((title for title, names in GROUPS.items() if action.dest == names[0]), None)
        return text if title is None else f"\n  {title}:\n{text}"


class Version(argparse.Action):
    def __init__(self, **given: Any) -> None:
        super().__init__(**{**given, "dest": argparse.SUPPRESS, "default": argparse.SUPPRESS, "nargs": 0})

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from importlib.metadata import version  # takes a while

        print(f"holdfast {version('holdfast')}")
        parser.exit()


def _epilog() -> str:
    lines = ["`holdfast COMMAND --help` shows examples.", "", "exit codes:"]
    lines += [f"  {code.value:<4} {meaning}" for code, meaning in MEANINGS.items()]
    lines += ["", "environment:"]
    lines += [f"  {name:<14} {meaning}" for name, meaning in ENVIRONMENT.items()]
    return "\n".join(lines)


def command_names(parser: Parser) -> list[str]:
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))  # noqa: SLF001
    return list(commands.choices)


def _require_command(parser: Parser, name: str) -> None:
    known = command_names(parser)
    if name.startswith("-") or name in known:
        return
    close = difflib.get_close_matches(name, known, n=1)
    parser.error(f"{name!r} is not a command{f'; did you mean {close[0]!r}?' if close else ''}")
