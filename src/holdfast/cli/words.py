"""How things are said to people: states with their colours, ages, numbers, and text that cannot harm a terminal."""

import unicodedata
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from rich.text import Text

from holdfast.core.failures import Failure
from holdfast.core.states import State

STYLES: Final = {
    State.PENDING: "bright_black",
    State.DELAYED: "cyan",
    State.SCHEDULED: "blue",
    State.RUNNING: "bold yellow",
    State.RETRYING: "magenta",
    State.COMPLETED: "green",
    State.FAILED: "bold red",
    State.DEAD_LETTER: "bold red",
    State.CANCELLED: "bright_black",
}
_UNITS: Final = (("d", 86400), ("h", 3600), ("m", 60))
SPARKS: Final = "▁▂▃▄▅▆▇█"


def state(value: State) -> Text:
    return Text(value, style=STYLES[value])


def safe(text: str) -> str:
    """One line without control characters: what a job says must not move the cursor or ring the bell."""
    return "".join(_visible(character) for character in text)


def safe_lines(text: str) -> str:
    """The same, with its lines kept."""
    return "\n".join(safe(line) for line in text.expandtabs().splitlines())


def _visible(character: str) -> str:
    if character in "\n\r\t\N{LINE SEPARATOR}\N{PARAGRAPH SEPARATOR}":
        return " "
    # Cc: control, Cf: format (text that runs backwards), Cs: half a surrogate pair.
    return "\N{REPLACEMENT CHARACTER}" if unicodedata.category(character) in ("Cc", "Cf", "Cs") else character


def duration(seconds: float) -> str:
    """The two largest units: 12ms, 3.2s, 4m 10s, 2h 5m, 3d 1h."""
    seconds = max(0.0, seconds)
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s" if seconds < 10 else f"{seconds:.0f}s"
    rest = int(seconds)
    parts: list[str] = []
    for name, size in (*_UNITS, ("s", 1)):
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count}{name}" if count else "")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if part)


def age(since: datetime | None, now: datetime) -> str:
    """How long ago, in the largest unit: it is read at a glance, and columns stay narrow."""
    if since is None:
        return ""
    seconds = max(0, int((now - since).total_seconds()))
    for name, size in _UNITS:
        if seconds >= size:
            return f"{seconds // size}{name}"
    return f"{seconds}s"


def ago(since: datetime, now: datetime) -> str:
    ahead = (since - now).total_seconds()
    return f"in {duration(ahead)}" if ahead > 0 else f"{duration(-ahead)} ago"


def moment(time: datetime) -> str:
    """In the reader's own time zone."""
    return time.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def number(value: int) -> str:
    return f"{value:,}"


def rate(per_second: float) -> str:
    return f"{per_second:,.1f}" if per_second < 100 else f"{per_second:,.0f}"


def count_of(value: int, noun: str) -> str:
    return f"{number(value)} {noun if value == 1 else f'{noun}s'}"


def error(failure: Failure | None) -> str:
    """A failure in one line; the error without the module it comes from."""
    if failure is None:
        return ""
    said = ": ".join(part for part in (failure.error_type.rpartition(".")[2], failure.message) if part)
    return safe(said or failure.code or failure.category)


def sparkline(values: Iterable[float]) -> str:
    given = list(values)
    highest = max(given, default=0.0)
    if highest <= 0:
        return SPARKS[0] * len(given)
    return "".join(SPARKS[min(len(SPARKS) - 1, int(value / highest * len(SPARKS)))] for value in given)
