"""New job IDs are UUIDs like any other."""

import copy
import pickle
from uuid import RFC_4122, UUID

from holdfast.engine.ids import new_id


def test_an_id_is_a_uuid_of_version_4() -> None:
    made = [new_id() for _ in range(1000)]
    assert len(set(made)) == len(made)
    assert {(type(one), one.version, one.variant) for one in made} == {(UUID, 4, RFC_4122)}


def test_an_id_cannot_be_told_from_one_that_was_read() -> None:
    made = new_id()
    read = UUID(str(made))
    assert (made, hash(made), repr(made), made.bytes, made.is_safe) == (
        read,
        hash(read),
        repr(read),
        read.bytes,
        read.is_safe,
    )
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made


def test_ids_are_random_in_every_bit_that_is_free() -> None:
    ones = zeros = 0
    for _ in range(2000):
        number = new_id().int
        ones |= number
        zeros |= ~number
    fixed = (0xF << 76) | (0x3 << 62)
    assert ones & zeros & ((1 << 128) - 1) == ((1 << 128) - 1) & ~fixed
