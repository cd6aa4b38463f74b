"""A node of Design B killed under load: its jobs are away, everybody else's are not."""

from collections.abc import Callable, Iterator

import grpc
import pytest

from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from holdfast.rpc.partition import make_owned_id, owner
from tests.blackbox.api import Api, code_of, new_key, spec, until
from tests.blackbox.faults.load import Load
from tests.blackbox.faults.nodes import NODES, Nodes

OK, UNAVAILABLE, NOT_FOUND = grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND
VICTIM = 2
Note = Callable[[str, object], None]
pytestmark = pytest.mark.xdist_group("blackbox-faults-b")


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    started = Nodes()
    try:
        started.start()
        yield started
    finally:
        started.close()


@pytest.fixture
def api(nodes: Nodes) -> Iterator[Api]:
    opened = Api(nodes.addresses)
    yield opened
    opened.close()


def test_a_node_that_dies_takes_its_own_jobs_and_no_others(nodes: Nodes, api: Api, record_property: Note) -> None:
    with Load(api) as load:
        load.wait_for_accepted(60)
        before = list(load.accepted.values())
        nodes.kill(VICTIM)
        load.wait_for_refused(20)
        survivors = Api([address for number, address in enumerate(nodes.addresses) if number != VICTIM])
        check_during(survivors, before)
        survivors.close()
        nodes.start(VICTIM)
        wait_until_found(api)
        load.wait_for_accepted(60)
    assert set(load.submits) == {OK, UNAVAILABLE}
    assert set(load.reads) <= {OK, UNAVAILABLE, NOT_FOUND}
    codes = {job_id: code_of(lambda job_id=job_id: api.status(job_id)) for job_id in load.accepted.values()}  # type: ignore[misc]
    lost = [job_id for job_id, code in codes.items() if code is NOT_FOUND]
    record_property("lost_by_design", len(lost))
    assert set(codes.values()) == {OK, NOT_FOUND}
    assert {owner(job_id, NODES) for job_id in lost} == {VICTIM}
    kept = [job_id for job_id in load.accepted.values() if job_id not in set(lost)]
    assert {api.ended(job_id).status for job_id in kept} == {pb.DONE}
    assert {owner(job_id, NODES) for job_id in kept} == set(range(NODES))
    load.check_canceled()


def wait_until_found(api: Api) -> None:
    """Every neighbour sees that the node is back: that takes a moment."""
    job_id = make_owned_id(VICTIM, NODES)
    for one in api.each():
        until(
            lambda one=one: code_of(lambda: one.status(job_id)),  # type: ignore[misc]
            is_so=lambda code: code is NOT_FOUND,
            what="was the node found again",
        )


def check_during(survivors: Api, before: list[str]) -> None:
    """While it is away: its jobs and its keys are UNAVAILABLE through every other node, all else goes on."""
    for one in survivors.each():
        for job_id in before[:12]:
            is_away = owner(job_id, NODES) == VICTIM
            assert code_of(lambda job_id=job_id, one=one: one.status(job_id)) is (UNAVAILABLE if is_away else OK)  # type: ignore[misc]
        for key in [new_key() for _ in range(12)]:
            is_away = owner(key, NODES) == VICTIM
            assert code_of(lambda key=key, one=one: one.submit(key=key)) is (UNAVAILABLE if is_away else OK)  # type: ignore[misc]
        assert code_of(one.submit) is OK
        assert code_of(one.page) is OK


def test_a_key_of_a_node_that_was_away_is_good_again(nodes: Nodes, api: Api) -> None:
    keys = [new_key() for _ in range(24)]
    first = {key: api.submit(spec(), key=key).job_id for key in keys}
    nodes.kill(VICTIM)
    nodes.start(VICTIM)
    wait_until_found(api)
    for key in keys:
        is_same = api.submit(spec(), key=key).job_id == first[key]
        assert is_same == (owner(key, NODES) != VICTIM)
