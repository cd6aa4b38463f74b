"""Which node of Design B owns a job, or a key: the same answer in every process, for ever.

CRC-32 of the UTF-8 text, modulo the number of nodes: stable (Python's ``hash`` is another one in every process), even
over random IDs, and a tenth of a microsecond.
"""

from collections.abc import Callable
from typing import Final
from uuid import UUID, uuid4
from zlib import crc32

TAIL_CHARACTERS: Final = 2
TAILS: Final = 16**TAIL_CHARACTERS
_TAILS: Final = [f"{number:0{TAIL_CHARACTERS}x}" for number in range(TAILS)]
_TAIL_BYTES: Final = [tail.encode() for tail in _TAILS]
MAX_TRIES: Final = 10_000


def owner(text: str, nodes: int) -> int:
    """0 … nodes - 1."""
    return crc32(text.encode()) % nodes


def make_owned_id(node: int, nodes: int, make_uuid: Callable[[], UUID] = uuid4) -> str:
    """A new UUIDv4 that ``node`` owns.

    Only its last two digits are looked for, from where chance has put them: a hash goes on where it stood, so this
    costs less than a second random UUID would.
    """
    if not 0 <= node < nodes:
        raise ValueError(f"node {node} is not one of the {nodes}, which are counted from 0")
    for _ in range(MAX_TRIES):
        text = str(make_uuid())
        head, start = text[:-TAIL_CHARACTERS], int(text[-TAIL_CHARACTERS:], 16)
        so_far = crc32(head.encode())
        for number in range(start, start + TAILS):
            if crc32(_TAIL_BYTES[number % TAILS], so_far) % nodes == node:
                return head + _TAILS[number % TAILS]
    raise ValueError(f"no ID for node {node} of {nodes} was found; are there fewer nodes than that?")
