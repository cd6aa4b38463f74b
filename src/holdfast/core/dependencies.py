"""What it means for a job to wait for others.

Invariants (tests cite them by number):

DEPEND-1. The graph is acyclic: only jobs of one submission can name each other, and a cycle among them is refused.
DEPEND-2. A chain is at most 100 deep, a job waits for at most 1000 others, and every one of them exists at submit.
DEPEND-3. AFTER, CHAIN, FAN_OUT and FAN_IN need COMPLETED; any other end of one of them ends the dependent in the same
    way.
DEPEND-4. AFTER_ANY is met by the first end of any kind, and never ends its dependent.
DEPEND-5. Several kinds on one job must all hold.
DEPEND-6. An edge is open until what it asks for has happened; a PENDING job is released when it has no open edge.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from uuid import UUID

from holdfast.core import limits
from holdfast.core.errors import Fault
from holdfast.core.states import State

if TYPE_CHECKING:
    from holdfast.core.job import Record


class DependencyKind(StrEnum):
    AFTER = "AFTER"
    AFTER_ANY = "AFTER_ANY"
    CHAIN = "CHAIN"
    FAN_OUT = "FAN_OUT"
    FAN_IN = "FAN_IN"


@dataclass(frozen=True, slots=True)
class Dependency:
    job_id: UUID
    kind: DependencyKind = DependencyKind.AFTER


@dataclass(frozen=True, slots=True)
class Edge:
    """``child`` waits for ``parent`` (both seqs)."""

    child: int
    parent: int
    kind: DependencyKind
    is_open: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a job's dependencies, as they stand, mean for it."""

    ended_by: "Record | None"
    open_parents: frozenset[int]


def judge(parents: Sequence[tuple[DependencyKind, "Record"]]) -> Verdict:
    """Apply DEPEND-3 to DEPEND-5 to a job that is to wait: at submit, or when it comes back with its dependency."""
    needed = [parent for kind, parent in parents if kind is not DependencyKind.AFTER_ANY]
    alternatives = [parent for kind, parent in parents if kind is DependencyKind.AFTER_ANY]
    open_parents = {parent.seq for parent in needed if not parent.state.is_terminal}
    if not any(parent.state.is_terminal for parent in alternatives):
        open_parents.update(parent.seq for parent in alternatives)
    ended_by = next((p for p in needed if p.state.is_terminal and p.state is not State.COMPLETED), None)
    return Verdict(ended_by, frozenset(open_parents))


def ends_dependent(kind: DependencyKind, parent_state: State) -> bool:
    """Whether this end of a dependency ends the dependent (DEPEND-3, DEPEND-4)."""
    return kind is not DependencyKind.AFTER_ANY and parent_state is not State.COMPLETED


def order(jobs: Mapping[UUID, Iterable[Dependency]]) -> tuple[list[UUID], list[UUID]]:
    """Dependencies first. The second list holds the jobs that lie on, or behind, a cycle (DEPEND-1)."""
    open_parents = {job: {d.job_id for d in waits_for if d.job_id in jobs} for job, waits_for in jobs.items()}
    children: dict[UUID, list[UUID]] = {job: [] for job in jobs}
    for job, parents in open_parents.items():
        for parent in parents:
            children[parent].append(job)
    ready = [job for job, parents in open_parents.items() if not parents]
    ordered: list[UUID] = []
    while ready:
        ordered += ready
        released: list[UUID] = []
        for parent in ready:
            for child in children[parent]:
                open_parents[child].discard(parent)
                if not open_parents[child]:
                    released.append(child)
        ready = released
    done = set(ordered)
    return ordered, [job for job in jobs if job not in done]


def shape_faults(index: int, job_id: UUID, waits_for: Sequence[Dependency]) -> Iterable[Fault]:
    """What can be said of one job's dependencies without knowing any other job (DEPEND-1, DEPEND-2)."""
    if not are_dependencies(waits_for):
        yield Fault(item=index, field="dependencies", problem="are not a tuple of Dependency")
        return
    if len(waits_for) > limits.MAX_DEPENDENCIES:
        yield Fault(
            item=index,
            field="dependencies",
            problem=f"are {len(waits_for)}",
            limit=f"{limits.MAX_DEPENDENCIES} a job",
        )
    if any(dependency.job_id == job_id for dependency in waits_for):
        yield Fault(item=index, field="dependencies", problem="name the job itself")
    if len({dependency.job_id for dependency in waits_for}) < len(waits_for):
        yield Fault(item=index, field="dependencies", problem="name one job twice")


def are_dependencies(given: Any) -> bool:
    return isinstance(given, tuple | list) and all(isinstance(one, Dependency) for one in given)


def depth_fault(index: int, depth: int) -> Fault | None:
    if depth <= limits.MAX_DEPENDENCY_DEPTH:
        return None
    return Fault(
        item=index,
        field="dependencies",
        problem=f"make a chain {depth} deep",
        limit=f"{limits.MAX_DEPENDENCY_DEPTH} levels",
    )
