"""Log records as lines for people at a terminal: ``12:03:22 WARNING the store is away, trying again``.

TEXTLINE-1. Text for a terminal contains nothing that moves its cursor, but for our own colours.
"""

import logging
import time
from typing import Final

from holdfast.telemetry.records import message_of, readable, trace_of

_COLOURS: Final = {"DEBUG": "2", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}
# What would move a terminal's cursor, or worse, is shown as its escape; the ends of lines and tabs stay.
_ESCAPES: Final = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


class TextFormatter(logging.Formatter):
    def __init__(self, *, has_colours: bool = False) -> None:
        super().__init__()
        self._has_colours = has_colours

    def format(self, record: logging.LogRecord) -> str:
        """Never raises."""
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        parts = [message_of(record), trace_of(record)]
        said = "\n".join(readable(part).translate(_ESCAPES) for part in parts if part)
        return f"{clock} {self._level(record.levelname)} {said}"

    def _level(self, name: str) -> str:
        padded = f"{name:<7}"
        colour = _COLOURS.get(name) if self._has_colours else None
        return padded if colour is None else f"\x1b[{colour}m{padded}\x1b[0m"
