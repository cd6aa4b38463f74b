"""What can be written on the command line, and what it is read as. A wrong value is refused in one line by argparse."""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from holdfast.core import limits
from holdfast.core.commands import EQUAL, Filter
from holdfast.core.priority import Priority
from holdfast.core.states import State

_UNIT_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
STANDARD_INPUT: Final = "-"
Refused = argparse.ArgumentTypeError


def job_id(text: str) -> UUID:
    try:
        return UUID(text.strip())
    except ValueError:
        raise Refused(f"{text!r} is not a job ID; `holdfast jobs` shows them") from None


def seconds(text: str) -> float:
    """``90``, ``1.5s``, ``500ms``, ``5m``, ``2h``, ``7d``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?", text.strip())
    if found is None:
        raise Refused(f"{text!r} is not a duration; write 90, 90s, 5m, 2h or 7d")
    value = float(found[1]) * _UNIT_SECONDS[found[2] or "s"]
    if value > limits.MAX_TIMEOUT_SECONDS:
        raise Refused(f"{text!r} is too long; at most {limits.MAX_TIMEOUT_SECONDS / 86400:.0f}d")
    return value


def time(text: str) -> datetime:
    """A time in ISO 8601, local unless it says otherwise; or a duration, counted back from now."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    try:
        return datetime.now(UTC) - timedelta(seconds=seconds(text))
    except Refused:
        raise Refused(f"{text!r} is not a time; write 2026-01-31T12:00, or how long ago: 90s, 5m, 2h, 7d") from None


def positive(text: str) -> int:
    value = int(text) if re.fullmatch(r"\d+", text) else 0
    if value < 1:
        raise Refused(f"{text!r} is not a number from 1")
    return value


def priority(text: str) -> Priority:
    known = {one.name: one for one in Priority} | {str(one.value): one for one in Priority}
    if text.upper() not in known:
        names = ", ".join(one.name.lower() for one in Priority)
        raise Refused(f"{text!r} is not a priority; write one of {names}")
    return known[text.upper()]


def state(text: str) -> State:
    name = text.strip().upper().replace("-", "_")
    if name not in State.__members__:
        raise Refused(f"{text!r} is not a state; write one of {', '.join(one.lower() for one in State)}")
    return State[name]


def states(text: str) -> list[State]:
    return [state(part) for part in text.split(",")]


def tag(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise Refused(f"{text!r} is not a tag; write name=value")
    return name, value


def payload(text: str) -> Any:
    """JSON, or ``-`` for JSON from standard input."""
    written = sys.stdin.read() if text == STANDARD_INPUT else text
    try:
        value = json.loads(written, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        where = "standard input" if text == STANDARD_INPUT else "it"
        raise Refused(f"""{where} is not JSON ({error}); write --payload '{{"path": "a.png"}}'""") from None
    if not isinstance(value, dict):
        raise Refused("""a payload is one object of parameter names; write --payload '{"path": "a.png"}'""")
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def add_filter(parser: argparse.ArgumentParser, *, which: Sequence[State]) -> None:
    """The options that choose jobs."""
    group = parser.add_argument_group("which jobs")
    group.add_argument(
        "--state",
        type=states,
        action="extend",
        metavar="STATE",
        help=f"one or more of {', '.join(one.lower() for one in which)}",
    )
    group.add_argument("--queue", help="of this queue")
    group.add_argument("--type", help="of this job type")
    group.add_argument("--group", help="of this group")
    group.add_argument("--tag", type=tag, metavar="NAME=VALUE", help="with this tag")
    group.add_argument("--since", type=time, metavar="TIME", help="created from then on: 2h (ago), 2026-01-31T12:00")
    group.add_argument("--until", type=time, metavar="TIME", help="created before then")


def filter_of(arguments: argparse.Namespace, *, states: Sequence[State] | None = None) -> Filter:
    chosen: Sequence[State] | None = arguments.state or states
    return Filter(
        states=None if chosen is None else frozenset(chosen),
        tag=arguments.tag,
        created_from=arguments.since,
        created_until=arguments.until,
        **{name: getattr(arguments, name) for name in EQUAL},
    )


def is_filtered(arguments: argparse.Namespace) -> bool:
    return any(getattr(arguments, name) for name in ("state", *EQUAL, "tag", "since", "until"))


def add_ids(parser: argparse.ArgumentParser, *, count: str) -> None:
    parser.add_argument("ids", nargs=count, metavar="ID", help="job IDs; - reads them from standard input")


def ids_of(arguments: argparse.Namespace) -> list[UUID]:
    """Each once, in the order given."""
    written: list[str] = []
    for text in arguments.ids:
        written += sys.stdin.read().split() if text == STANDARD_INPUT else [text]
    return list(dict.fromkeys(job_id(text) for text in written))
