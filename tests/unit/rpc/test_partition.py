"""Who owns what: the same answer in every process, evenly spread, and IDs that hash to their maker."""

import random
import subprocess
import sys
from collections import Counter
from uuid import UUID, uuid4

import pytest

from holdfast.rpc.checks import check_job_id
from holdfast.rpc.partition import make_owned_id, owner

WRITTEN = {
    "1b4e28ba-2fa1-4d3b-883f-0016d3cca427": 3,
    "order-7": 2,
    "☃": 4,
    "": 0,
}
"""Of six nodes. Never to change: what is stored by one version is looked for by the next."""


def test_an_owner_is_what_it_always_was() -> None:
    assert {text: owner(text, 6) for text in WRITTEN} == WRITTEN


def test_another_process_gives_the_same_answer() -> None:
    texts = [str(uuid4()) for _ in range(50)]
    program = f"from holdfast.rpc.partition import owner; print([owner(text, 6) for text in {texts!r}])"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.strip() == str([owner(text, 6) for text in texts])


def test_random_ids_are_spread_evenly() -> None:
    chance = random.Random(7)
    counts = Counter(owner(str(UUID(int=chance.getrandbits(128), version=4)), 6) for _ in range(60_000))
    assert set(counts) == set(range(6))
    assert all(9_500 < count < 10_500 for count in counts.values()), counts


@pytest.mark.parametrize("nodes", [1, 2, 6, 64, 1000])
def test_an_id_belongs_to_the_node_that_made_it(nodes: int) -> None:
    for node in {0, nodes // 2, nodes - 1}:
        made = [make_owned_id(node, nodes) for _ in range(50)]
        assert {owner(check_job_id(job_id), nodes) for job_id in made} == {node}
        assert len(set(made)) == 50


def test_a_node_that_is_none_is_refused() -> None:
    for node in (-1, 6):
        with pytest.raises(ValueError, match="counted from 0"):
            make_owned_id(node, 6)
