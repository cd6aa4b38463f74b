"""Jobs and their parameters in words, and how two values differ: the text of a failed assert."""

import difflib
import pprint
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any, Final

from holdfast.core.payload import Payload

LINE_CHARACTERS: Final = 100
MAX_TEXT_CHARACTERS: Final = 300
"""Of one job's parameters in a list."""
CONTEXT_LINES: Final = 2
MAX_LINES: Final = 2000
MAX_LINE_CHARACTERS: Final = 1000
"""Of a value that is compared."""
MAX_DIFFERENCE_LINES: Final = 60
MAX_LISTED: Final = 20


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def call_text(name: str, parameters: Payload | Mapping[str, Any]) -> str:
    """``send_mail(to='ann@example.org')``"""
    if isinstance(parameters, Payload):
        value = parameters.value()
        parameters = value if isinstance(value, dict) else {"payload": value}
    return f"{name}({parameters_text(parameters)})"


def parameters_text(parameters: Mapping[str, Any]) -> str:
    return _cut(", ".join(f"{name}={value!r}" for name, value in parameters.items()), MAX_TEXT_CHARACTERS)


def difference(name: str, expected: Any, submitted: Any) -> list[str]:
    """Lines that show how a parameter differs from what was expected."""
    wanted, found = _lines(expected), _lines(submitted)
    if len(wanted) == len(found) == 1:
        return [f"{name}: expected  {wanted[0]}", f"{' ' * len(name)}  submitted {found[0]}"]
    # Not ndiff, which is nicer: its time grows with the cube of what differs.
    lines = list(difflib.unified_diff(wanted, found, lineterm="", n=CONTEXT_LINES))[2:]
    rest = len(lines) - MAX_DIFFERENCE_LINES
    shown = lines if rest <= 0 else [*lines[:MAX_DIFFERENCE_LINES], f"… {rest} lines more"]
    return [f"{name}: - expected, + submitted", *(f"  {line}" for line in shown)]


def listed(entries: Iterable[str]) -> list[str]:
    """Indented, an entry of several lines too; a long list is cut."""
    lines = [textwrap.indent(entry, "  ") for entry in entries]
    rest = len(lines) - MAX_LISTED
    return lines if rest <= 0 else [*lines[:MAX_LISTED], f"  … and {rest} more"]


def _lines(value: Any) -> list[str]:
    is_text = isinstance(value, str) and "\n" in value
    lines = (value if is_text else pprint.pformat(value, width=LINE_CHARACTERS, sort_dicts=False)).split("\n")
    return [_cut(line, MAX_LINE_CHARACTERS) for line in lines[:MAX_LINES]]


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[:characters]} …"
