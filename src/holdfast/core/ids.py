"""UUIDs from numbers that are known to be right, in less than half the time that ``UUID(int=…)`` takes.

Thousands are made a second, one or two a job; ``UUID`` would check each in five ways.
"""

from collections.abc import Iterable
from typing import Final
from uuid import UUID, SafeUUID

_new = UUID.__new__
_set = object.__setattr__
# A member of an enumeration is looked up by a function of Python's.
_UNKNOWN: Final = SafeUUID.unknown


def uuid_of(number: int) -> UUID:
    """``number`` has 128 bits."""
    made = _new(UUID)
    _set(made, "int", number)
    _set(made, "is_safe", _UNKNOWN)
    return made


def uuids_of(numbers: Iterable[int]) -> list[UUID]:
    """Many of them, without a call for each."""
    new, write, unknown = _new, _set, _UNKNOWN
    uuids = []
    for number in numbers:
        made = new(UUID)
        write(made, "int", number)
        write(made, "is_safe", unknown)
        uuids.append(made)
    return uuids
