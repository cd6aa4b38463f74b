"""What can be wrong with a text, a name, a number of seconds, a time or an ID, whatever it is given for."""

from collections.abc import Iterable
from datetime import datetime
from math import isfinite
from typing import Any
from unicodedata import category
from uuid import UUID

from holdfast.core import limits
from holdfast.core.errors import Fault


def id_faults(index: int, job_id: Any) -> Iterable[Fault]:
    if not isinstance(job_id, UUID):
        yield Fault(item=index, field="id", problem=f"is {type(job_id).__name__}, not a UUID")


def text_faults(index: int, field: str, text: Any, most: int) -> Iterable[Fault]:
    if not isinstance(text, str):
        yield Fault(item=index, field=field, problem=f"is {type(text).__name__}, not text")
    elif not 1 <= len(text) <= most:
        yield Fault(item=index, field=field, problem=f"has {len(text)} characters", limit=f"1 … {most} characters")
    elif not text.isascii() or "\0" in text:
        yield from character_faults(index, field, text)


def character_faults(index: int, field: str, text: str) -> Iterable[Fault]:
    if "\0" in text:
        yield Fault(item=index, field=field, problem="contains NUL, which PostgreSQL cannot store as text")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        yield Fault(item=index, field=field, problem=f"is not UTF-8 ({error.reason})")


def queue_faults(index: int, field: str, queue: Any) -> Iterable[Fault]:
    """Names of queues stand in lines: in notifications, on terminals, in metrics."""
    return line_faults(index, field, queue, limits.MAX_QUEUE_CHARACTERS)


def line_faults(index: int, field: str, text: Any, most: int) -> Iterable[Fault]:
    if not isinstance(text, str):
        yield from text_faults(index, field, text, most)
        return
    if text.isascii() and text.isprintable() and 1 <= len(text) <= most:
        return
    yield from text_faults(index, field, text, most)
    # NUL has its own fault.
    if any(category(character) in ("Cc", "Zl", "Zp") and character != "\0" for character in text):
        yield Fault(item=index, field=field, problem="contains a line break or another control character")


def datetime_faults(index: int, field: str, value: Any) -> Iterable[Fault]:
    if not isinstance(value, datetime):
        yield Fault(item=index, field=field, problem=f"is {type(value).__name__}, not a datetime")
    elif value.tzinfo is None:
        yield Fault(item=index, field=field, problem="is a naive datetime; give it a time zone")


def seconds_faults(index: int, field: str, value: Any, *, most: float, least: float = 0.0) -> Iterable[Fault]:
    if not is_number(value) or not least <= value <= most:
        yield Fault(item=index, field=field, problem=f"is {value!r}", limit=f"{least} … {most} seconds")


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
