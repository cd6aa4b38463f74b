"""New job IDs: random UUIDs (version 4) of which those of a moment stand together.

Were every ID to fall somewhere else in the index over them, each insert would touch a page of its own, and after a
checkpoint log it whole: with many jobs in the table the index would cost a submit more than all the rest. So the first
48 bits are drawn once for a run of IDs; the other 74 are drawn for every one, and make it unique and not to be guessed.
"""

from os import urandom
from struct import iter_unpack
from typing import Final
from uuid import UUID

from holdfast.core.ids import uuid_of, uuids_of

RUN_IDS: Final = 4096
"""So many have their first bits in common, unless another thread draws new ones meanwhile."""

_OWN_BYTES: Final = 10
_FREE_BITS: Final = ~((0xF << 76) | (0x3 << 62))
_VERSION_4: Final = (4 << 76) | (0x2 << 62)

_first_bits = 0
_left = 0


def new_id() -> UUID:
    """Nothing is drawn ahead: a process that was forked, or restored from a snapshot, makes other IDs than its twin."""
    return uuid_of(_common_bits(1) | int.from_bytes(urandom(_OWN_BYTES)) & _FREE_BITS)


def new_ids(count: int) -> list[UUID]:
    """As many of ``new_id``, at half the cost."""
    common = _common_bits(count)
    drawn = iter_unpack(">HQ", urandom(_OWN_BYTES * count))
    return uuids_of([common | (high << 64 | low) & _FREE_BITS for high, low in drawn])


def _common_bits(count: int) -> int:
    global _first_bits, _left
    if _left <= 0:
        _first_bits = int.from_bytes(urandom(6)) << 80 | _VERSION_4
        _left = RUN_IDS
    _left -= count
    return _first_bits
