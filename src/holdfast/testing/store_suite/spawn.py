"""Spawn: children that exist if, and only if, their parent completed."""

from holdfast.core.commands import Completed, NewJob, Settled, Settlement
from holdfast.core.dependencies import DependencyKind
from holdfast.core.errors import HoldfastError, InvalidInput, StaleLease
from holdfast.core.job import ClaimedJob, Timeouts
from holdfast.core.ports import Store
from holdfast.core.priority import Priority
from holdfast.core.states import State
from holdfast.engine import work
from holdfast.testing.factories import (
    COMPLETED,
    FAIL,
    after,
    claim_one,
    job_in_state,
    new_job,
    read_all,
    read_counts,
    read_one,
    read_state,
    read_states,
    register,
    running_job,
    settle,
    settle_answer,
    submit_chain,
    submit_one,
    tick,
)
from holdfast.testing.harness import StoreHarness
from holdfast.testing.invariants import snapshot

FAN_IN = DependencyKind.FAN_IN


async def spawn(store: Store, parent: ClaimedJob, *children: NewJob) -> Settled | HoldfastError:
    answer: Settled | HoldfastError = await settle_answer(store, parent, Completed(b"1", spawn=children))
    return answer


async def run(store: Store, queue: str) -> None:
    await settle(store, await claim_one(store, await register(store), queues=(queue,)))


async def test_children_appear_with_their_parents_completion(harness: StoreHarness) -> None:
    """In the transaction that settles the parent COMPLETED; one deeper than the parent."""
    grandparent, parent_id = await submit_chain(harness.store, 2, queue="chain")
    await run(harness.store, "chain")
    parent = await claim_one(harness.store, await register(harness.store), queues=("chain",))
    children = [new_job(), new_job(delay_seconds=5.0, priority=Priority.LOW)]
    assert await spawn(harness.store, parent, *children) == Settled(State.COMPLETED)
    jobs = [await read_one(harness.store, child.id) for child in children]
    assert [job.state for job in jobs] == [State.SCHEDULED, State.DELAYED]
    assert [job.depth for job in jobs] == [2, 2]
    assert [job.spawned_by for job in jobs] == [parent_id, parent_id]
    assert (await read_one(harness.store, parent_id)).spawned_by is None
    assert await read_state(harness.store, grandparent) is State.COMPLETED


async def test_a_stale_attempt_spawns_nothing(harness: StoreHarness) -> None:
    parent = await running_job(harness.store, timeouts=Timeouts(visibility=10.0))
    harness.clock.advance(10)
    await tick(harness.store)
    before = await snapshot(harness.store)
    assert isinstance(await spawn(harness.store, parent, new_job(key="k")), StaleLease)
    assert await snapshot(harness.store) == before


async def test_a_repeated_settle_spawns_once(harness: StoreHarness) -> None:
    """PORT-4."""
    parent = await running_job(harness.store)
    children = (new_job(), new_job())
    await spawn(harness.store, parent, *children)
    assert await spawn(harness.store, parent, *children) == Settled(State.COMPLETED, is_repeat=True)
    assert len(await read_all(harness.store)) == 3


async def test_bad_children_refuse_the_settle_and_nothing_else(harness: StoreHarness) -> None:
    """PORT-5: one bad child refuses all of its parent's; a neighbour is settled."""
    parent, neighbour = [await running_job(harness.store) for _ in range(2)]
    bad = (new_job(), new_job(type=""), new_job(delay_seconds=-1.0))
    answers = await work.settle(
        harness.store,
        [
            Settlement(lease=parent.lease, outcome=Completed(spawn=bad)),
            Settlement(lease=neighbour.lease, outcome=COMPLETED),
        ],
    )
    assert isinstance(answers[0], InvalidInput)
    assert {(fault.item, fault.field) for fault in answers[0].faults} == {(1, "type"), (2, "delay_seconds")}
    assert answers[1] == Settled(State.COMPLETED)
    assert await read_state(harness.store, parent.id) is State.RUNNING
    assert len(await read_all(harness.store)) == 2
    assert isinstance(await spawn(harness.store, parent, new_job(dependencies=after(new_job().id))), InvalidInput)
    assert await settle(harness.store, parent, FAIL) is State.FAILED


async def test_children_may_not_go_deeper_than_the_limit(harness: StoreHarness) -> None:
    """So that a job that spawns its like does not go on without end."""
    ids = await submit_chain(harness.store, 101, queue="chain")
    worker = await register(harness.store)
    for _ in range(100):
        await settle(harness.store, await claim_one(harness.store, worker, queues=("chain",)))
    deepest = await claim_one(harness.store, worker, queues=("chain",))
    assert deepest.id == ids[-1]
    answer = await spawn(harness.store, deepest, new_job())
    assert isinstance(answer, InvalidInput)
    assert [fault.field for fault in answer.faults] == ["dependencies"]
    assert await read_state(harness.store, deepest.id) is State.RUNNING


async def test_a_child_with_a_key_is_made_once(harness: StoreHarness) -> None:
    """Two parents, one child."""
    for _ in range(2):
        await spawn(harness.store, await running_job(harness.store), new_job(queue="children", key="k"))
    assert await read_counts(harness.store, "children") == {State.SCHEDULED: 1}


async def test_children_may_wait_for_each_other(harness: StoreHarness) -> None:
    """A running job spawns a workflow."""
    parent = await running_job(harness.store)
    first = new_job()
    second = new_job(dependencies=after(first.id))
    await spawn(harness.store, parent, second, first)
    jobs = [await read_one(harness.store, job.id) for job in (first, second)]
    assert [job.state for job in jobs] == [State.SCHEDULED, State.PENDING]
    assert [job.depth for job in jobs] == [1, 2]


async def test_a_child_may_wait_for_its_own_parent(harness: StoreHarness) -> None:
    """The parent completes in the same transaction, so the child runs at once."""
    parent = await running_job(harness.store)
    children = [new_job(dependencies=after(parent.id, kind=kind)) for kind in DependencyKind]
    await spawn(harness.store, parent, *children)
    await tick(harness.store)
    states = await read_states(harness.store, [child.id for child in children])
    assert states == [State.SCHEDULED] * len(children)


async def test_a_child_may_wait_for_a_job_that_is_settled_in_the_same_call(harness: StoreHarness) -> None:
    """DEPEND-6: the settles of one call know of each other."""
    for first, second in ((0, 1), (1, 0)):
        jobs = [await running_job(harness.store) for _ in range(2)]
        child = new_job(dependencies=after(jobs[1].id))
        settlements = [
            Settlement(lease=jobs[0].lease, outcome=Completed(spawn=(child,))),
            Settlement(lease=jobs[1].lease, outcome=COMPLETED),
        ]
        answers = await harness.store.settle([settlements[first], settlements[second]])
        assert answers == [Settled(State.COMPLETED)] * 2
        await tick(harness.store)
        assert await read_state(harness.store, child.id) is State.SCHEDULED


async def test_fan_in_on_a_spawner_waits_for_its_children(harness: StoreHarness) -> None:
    """For the spawner and for all of them."""
    parent = await running_job(harness.store)
    gather = await submit_one(harness.store, dependencies=after(parent.id, kind=FAN_IN))
    plain = await submit_one(harness.store, dependencies=after(parent.id))
    await spawn(harness.store, parent, new_job(queue="a"), new_job(queue="b"))
    assert await read_states(harness.store, [gather, plain]) == [State.PENDING, State.SCHEDULED]
    await run(harness.store, "a")
    assert await read_state(harness.store, gather) is State.PENDING
    await run(harness.store, "b")
    assert await read_state(harness.store, gather) is State.SCHEDULED
    assert len(await harness.store.read_upstream(gather)) == 3


async def test_fan_in_on_a_spawner_without_children_runs_at_once(harness: StoreHarness) -> None:
    parent = await running_job(harness.store)
    gather = await submit_one(harness.store, dependencies=after(parent.id, kind=FAN_IN))
    await settle(harness.store, parent)
    assert await read_state(harness.store, gather) is State.SCHEDULED


async def test_fan_in_submitted_after_the_spawn_waits_for_the_children_too(harness: StoreHarness) -> None:
    parent = await running_job(harness.store)
    await spawn(harness.store, parent, new_job(queue="a"), new_job(queue="b"))
    await run(harness.store, "a")
    gather = await submit_one(harness.store, dependencies=after(parent.id, kind=FAN_IN))
    assert await read_state(harness.store, gather) is State.PENDING
    await run(harness.store, "b")
    assert await read_state(harness.store, gather) is State.SCHEDULED


async def test_fan_in_ends_with_a_child_that_fails(harness: StoreHarness) -> None:
    """DEPEND-3."""
    parent = await running_job(harness.store)
    gather = await submit_one(harness.store, dependencies=after(parent.id, kind=FAN_IN))
    child = new_job(queue="children")
    await spawn(harness.store, parent, child)
    job = await claim_one(harness.store, await register(harness.store), queues=("children",))
    await settle(harness.store, job, FAIL)
    read = await read_one(harness.store, gather)
    assert (read.state, read.ended_by) == (State.FAILED, child.id)


async def test_fan_in_ends_with_a_child_that_is_dead_from_the_start(harness: StoreHarness) -> None:
    """DEPEND-3: a child whose own dependency had failed ends in the transaction that makes it."""
    dead = await job_in_state(harness.store, State.FAILED)
    parent = await running_job(harness.store)
    gather = await submit_one(harness.store, dependencies=after(parent.id, kind=FAN_IN))
    child = new_job(dependencies=after(dead))
    await spawn(harness.store, parent, child)
    await tick(harness.store)
    assert await read_state(harness.store, child.id) is State.FAILED
    read = await read_one(harness.store, gather)
    assert (read.state, read.ended_by) == (State.FAILED, child.id)


async def test_fan_in_may_already_wait_for_what_is_spawned(harness: StoreHarness) -> None:
    """DEPEND-6: a child that has a key may be a job that the fan-in waits for anyhow."""
    parent = await running_job(harness.store)
    known = await submit_one(harness.store, queue="known", key="k")
    gather = await submit_one(harness.store, dependencies=after(known) + after(parent.id, kind=FAN_IN))
    await spawn(harness.store, parent, new_job(key="k"))
    assert await read_state(harness.store, gather) is State.PENDING
    await run(harness.store, "known")
    assert await read_state(harness.store, gather) is State.SCHEDULED


async def test_spawning_cannot_close_a_circle(harness: StoreHarness) -> None:
    """DEPEND-1: a fan-in waits for the children of its spawner, so no child may wait for the fan-in."""
    parent = await running_job(harness.store)
    gather = await submit_one(harness.store, queue="gather", dependencies=after(parent.id, kind=FAN_IN))
    child = new_job(queue="child", dependencies=after(gather))
    answer = await spawn(harness.store, parent, child)
    if isinstance(answer, InvalidInput):
        assert [fault.field for fault in answer.faults] == ["dependencies"]
        assert len(await read_all(harness.store)) == 2
        return
    await tick(harness.store)
    assert await read_state(harness.store, gather) is State.SCHEDULED, "the circle cannot be left"


async def test_a_fan_in_is_not_its_own_child(harness: StoreHarness) -> None:
    """DEPEND-1: a child with the key of the job that waits for it."""
    parent = await running_job(harness.store)
    gather = await submit_one(harness.store, key="k", dependencies=after(parent.id, kind=FAN_IN))
    await spawn(harness.store, parent, new_job(key="k"))
    await tick(harness.store)
    assert await read_state(harness.store, gather) is State.SCHEDULED
