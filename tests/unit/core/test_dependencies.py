"""What waiting for other jobs means."""

from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import limits
from holdfast.core.dependencies import (
    Dependency,
    DependencyKind,
    depth_fault,
    ends_dependent,
    judge,
    order,
    shape_faults,
)
from holdfast.core.job import Record
from holdfast.core.priority import Priority, effective
from holdfast.core.states import TERMINAL, State

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NEEDED = [kind for kind in DependencyKind if kind is not DependencyKind.AFTER_ANY]


def record(seq: int, state: State) -> Record:
    return Record(
        seq=seq,
        id=UUID(int=seq),
        type="t",
        queue="q",
        priority=Priority.NORMAL,
        depth=0,
        max_attempts=3,
        visibility_seconds=300,
        lifetime_seconds=3600,
        lifetime_ends_at=NOW,
        created_at=NOW,
        run_at=None,
        state=state,
        updated_at=NOW,
    )


@pytest.mark.parametrize("kind", NEEDED)
@pytest.mark.parametrize("state", list(State))
def test_a_needed_dependency_is_open_until_it_ends_and_ends_its_dependent_unless_completed(
    kind: DependencyKind, state: State
) -> None:
    """DEPEND-3."""
    verdict = judge([(kind, record(1, state))])
    assert bool(verdict.open_parents) == (not state.is_terminal)
    assert (verdict.ended_by is not None) == (state in TERMINAL and state is not State.COMPLETED)


@pytest.mark.parametrize("state", list(State))
def test_any_end_meets_after_any_and_none_is_passed_on(state: State) -> None:
    """DEPEND-4."""
    verdict = judge(
        [(DependencyKind.AFTER_ANY, record(1, state)), (DependencyKind.AFTER_ANY, record(2, State.RUNNING))]
    )
    assert verdict.open_parents == (frozenset() if state.is_terminal else {1, 2})
    assert verdict.ended_by is None


def test_several_kinds_must_all_hold() -> None:
    """DEPEND-5."""
    verdict = judge(
        [(DependencyKind.AFTER_ANY, record(1, State.FAILED)), (DependencyKind.AFTER, record(2, State.RUNNING))]
    )
    assert verdict.open_parents == {2}
    assert verdict.ended_by is None


def test_only_needed_kinds_pass_an_end_on() -> None:
    passed_on = {(k, s) for k in DependencyKind for s in TERMINAL if ends_dependent(k, s)}
    assert passed_on == {(k, s) for k in NEEDED for s in TERMINAL if s is not State.COMPLETED}


@given(st.data())
def test_order_puts_dependencies_first_in_any_graph_without_a_cycle(data: st.DataObject) -> None:
    """DEPEND-1."""
    ids = [UUID(int=n) for n in range(1, data.draw(st.integers(1, 12)) + 1)]
    graph = {
        job: [Dependency(parent) for parent in data.draw(st.lists(st.sampled_from(ids[:n]), unique=True))] if n else []
        for n, job in enumerate(ids)
    }
    shuffled = {job: graph[job] for job in data.draw(st.permutations(ids))}
    ordered, cyclic = order(shuffled)
    assert cyclic == []
    assert sorted(ordered) == ids
    assert all(ordered.index(d.job_id) < ordered.index(job) for job, waits in graph.items() for d in waits)


def test_order_finds_a_cycle_and_what_lies_behind_it() -> None:
    """DEPEND-1."""
    a, b, behind, free = (uuid4() for _ in range(4))
    graph = {a: [Dependency(b)], b: [Dependency(a)], behind: [Dependency(b)], free: []}
    assert order(graph) == ([free], [a, b, behind])


def test_breadth_and_depth_have_their_limits() -> None:
    """DEPEND-2."""
    many = tuple(Dependency(uuid4()) for _ in range(limits.MAX_DEPENDENCIES))
    assert list(shape_faults(0, uuid4(), many)) == []
    (fault,) = shape_faults(7, uuid4(), (*many, Dependency(uuid4())))
    assert (fault.item, fault.field, fault.limit) == (7, "dependencies", "1000 a job")
    assert depth_fault(0, 100) is None
    assert depth_fault(3, 101) is not None


def test_the_best_priority_is_inherited() -> None:
    assert effective(Priority.LOW, []) is Priority.LOW
    assert effective(Priority.LOW, [Priority.BULK, Priority.HIGH]) is Priority.HIGH
    assert effective(Priority.CRITICAL, [Priority.BULK]) is Priority.CRITICAL
