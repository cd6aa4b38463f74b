"""New job IDs are UUIDs like any other."""

import copy
import os
import pickle
from collections.abc import Iterable
from uuid import RFC_4122, UUID

from holdfast.engine.ids import RUN_IDS, new_id, new_ids


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


FREE_BITS = ((1 << 128) - 1) & ~((0xF << 76) | (0x3 << 62))
FIRST_BITS = ((1 << 48) - 1) << 80


def seen_both_ways(numbers: Iterable[int]) -> int:
    """The bits that are set in some and not in others."""
    ones = zeros = 0
    for number in numbers:
        ones |= number
        zeros |= ~number
    return ones & zeros & ((1 << 128) - 1)


def test_ids_are_random_in_every_bit_that_is_free() -> None:
    runs = [new_ids(RUN_IDS) for _ in range(50)]
    assert seen_both_ways(one.int for run in runs for one in run) == FREE_BITS
    assert len({one for run in runs for one in run}) == 50 * RUN_IDS


def test_ids_of_a_moment_stand_together_and_differ_in_all_other_bits() -> None:
    new_ids(RUN_IDS)  # whatever was begun is over
    made = new_ids(RUN_IDS // 2) + [new_id() for _ in range(RUN_IDS // 2)]
    assert seen_both_ways(one.int for one in made) == FREE_BITS & ~FIRST_BITS
    assert new_id().int & FIRST_BITS != made[0].int & FIRST_BITS


def test_a_forked_process_makes_other_ids() -> None:
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, b"".join(one.bytes for one in new_ids(100)))
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        theirs = answer.read()
    assert len(theirs) == 1600
    assert not {theirs[start : start + 16] for start in range(0, 1600, 16)} & {one.bytes for one in new_ids(100)}


def test_many_ids_are_as_many_as_were_asked_for() -> None:
    assert new_ids(0) == []
    made = new_ids(3)
    assert {(type(one), one.version, one.variant) for one in made} == {(UUID, 4, RFC_4122)}
    assert len(made) == 3
