"""New job IDs: random UUIDs (version 4)."""

from os import urandom
from typing import Final
from uuid import UUID

from holdfast.core.ids import uuid_of

_FREE_BITS: Final = ~((0xF << 76) | (0x3 << 62))
_VERSION_4: Final = (4 << 76) | (0x2 << 62)


def new_id() -> UUID:
    """As ``uuid.uuid4``, at a third of the cost: a submit of a thousand jobs makes a thousand of them."""
    return uuid_of(int.from_bytes(urandom(16)) & _FREE_BITS | _VERSION_4)
