"""UUIDs from numbers that are known to be right, in a third of the time that ``UUID(int=…)`` takes.

Thousands are made a second, one or two a job; ``UUID`` would check each in five ways.
"""

from uuid import UUID, SafeUUID

_new = UUID.__new__
_set = object.__setattr__


def uuid_of(number: int) -> UUID:
    """``number`` has 128 bits."""
    made = _new(UUID)
    _set(made, "int", number)
    _set(made, "is_safe", SafeUUID.unknown)
    return made
