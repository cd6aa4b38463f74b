"""Jobs that wait for each other, submitted together or not at all.

A workflow is built from calls and other workflows. It has heads (what is made to wait when something is put before it)
and tails (what is waited for when something is put behind it).

WORKFLOW-1. One submit, one transaction: no part of a workflow is ever accepted alone.
WORKFLOW-2. With a key, a repeat finds the whole workflow: its nodes have the keys ``key#0``, ``key#1``, … in the order
    given.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast, overload
from uuid import UUID

from holdfast.app.client import Submission
from holdfast.app.handle import JobHandle
from holdfast.app.job_type import Call
from holdfast.app.runtime import Runtime
from holdfast.core.commands import CancelAnswer, NewJob, Submitted
from holdfast.core.dependencies import Dependency, DependencyKind
from holdfast.core.errors import UsageError
from holdfast.core.idempotency import item_key
from holdfast.core.times import Seconds, seconds_of

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")

Ends = UUID | tuple["Ends", ...]
"""The last job, or the last ones of each branch: the result has the same shape, with a list for each tuple."""


@dataclass(frozen=True, slots=True)
class Node:
    call: Call[Any]
    waits_for: tuple[Dependency, ...] = ()

    def new_job(self) -> NewJob:
        job = self.call.new_job()
        job.dependencies = (*job.dependencies, *self.waits_for)
        return job


@dataclass(frozen=True, slots=True)
class Graph:
    nodes: tuple[Node, ...]
    heads: frozenset[UUID]
    ends: Ends

    @property
    def tails(self) -> list[UUID]:
        return list(_flat(self.ends))


class Workflow(Generic[R_co]):
    """What ``chain``, ``fan_out`` and ``fan_in`` give: submit it, or put it into another one."""

    __slots__ = ("graph",)

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    async def submit(self, *, key: str | None = None, connection: Any = None) -> "WorkflowHandle[R_co]":
        """Accept all jobs, or none. With ``key``, a repeat gives the workflow that exists."""
        submission = self._submission(key, connection)
        return self._handle(await self._runtime.client.submit(submission))

    def submit_sync(self, *, key: str | None = None, connection: Any = None) -> "WorkflowHandle[R_co]":
        """``submit`` for programs without an event loop."""
        submission = self._submission(key, connection)
        return self._handle(
            self._runtime.call_sync(
                "submit_sync",
                lambda client: client.submit(submission),
                instead="await workflow.submit()",
                connection=connection,
            )
        )

    @property
    def calls(self) -> tuple[Call[Any], ...]:
        """In the order given, which is also that of the handles."""
        return tuple(node.call for node in self.graph.nodes)

    @property
    def _runtime(self) -> Runtime:
        return self.graph.nodes[0].call.runtime

    def _submission(self, key: str | None, connection: Any) -> Submission:
        jobs = [node.new_job() for node in self.graph.nodes]
        if key is not None:
            put_keys(jobs, key)
        return Submission(jobs=tuple(jobs), is_keyed_as_one=key is not None, connection=connection)

    def _handle(self, answers: Sequence[Submitted]) -> "WorkflowHandle[R_co]":
        handles = {call.id: call.handle(answer) for call, answer in zip(self.calls, answers, strict=True)}
        return WorkflowHandle(self._runtime, handles, self.graph.ends)

    def __repr__(self) -> str:
        return f"<Workflow of {len(self.graph.nodes)} jobs>"


class WorkflowHandle(Generic[R_co]):
    """A workflow that was submitted: ``handles`` of all its jobs, and the result of its last."""

    __slots__ = ("_by_call", "_ends", "_runtime")

    def __init__(self, runtime: Runtime, by_call: Mapping[UUID, JobHandle[Any]], ends: Ends) -> None:
        self._runtime = runtime
        self._by_call = by_call
        self._ends = ends

    @property
    def handles(self) -> tuple[JobHandle[Any], ...]:
        """One a job, in the order in which the calls were given."""
        return tuple(self._by_call.values())

    @property
    def is_duplicate(self) -> bool:
        """The key already stood for this workflow; nothing was created."""
        return all(handle.is_duplicate for handle in self.handles)

    async def result(self, timeout: Seconds | None = None) -> R_co:
        """What the last job returned; a list where the workflow ends in a fan-out. Raises as a job's result does."""
        waits = {end: asyncio.ensure_future(self._by_call[end].result(timeout)) for end in _flat(self._ends)}
        try:
            await asyncio.gather(*waits.values())
        finally:
            for wait in waits.values():
                wait.cancel()
        return cast("R_co", _shaped(self._ends, {end: wait.result() for end, wait in waits.items()}))

    def result_sync(self, timeout: Seconds | None = None) -> R_co:
        """``result`` for programs without an event loop."""
        ends_at = None if timeout is None else time.monotonic() + seconds_of(timeout)
        results = {}
        for end in _flat(self._ends):
            left = None if ends_at is None else max(0.0, ends_at - time.monotonic())
            results[end] = self._by_call[end].result_sync(left)
        return cast("R_co", _shaped(self._ends, results))

    async def cancel(self) -> list[CancelAnswer]:
        """Cancel every job that has not ended."""
        return await self._runtime.client.engine.cancel([handle.id for handle in self.handles])

    def cancel_sync(self) -> list[CancelAnswer]:
        ids = [handle.id for handle in self.handles]
        return self._runtime.call_sync(
            "cancel_sync", lambda client: client.engine.cancel(ids), instead="await workflow.cancel()"
        )

    def __repr__(self) -> str:
        return f"<WorkflowHandle of {len(self._by_call)} jobs>"


Step = Call[Any] | Workflow[Any]
StepOf = Call[R] | Workflow[R]


@overload
def chain(last: StepOf[R], /) -> Workflow[R]: ...
@overload
def chain(a: Step, last: StepOf[R], /) -> Workflow[R]: ...
@overload
def chain(a: Step, b: Step, last: StepOf[R], /) -> Workflow[R]: ...
@overload
def chain(a: Step, b: Step, c: Step, last: StepOf[R], /) -> Workflow[R]: ...
@overload
def chain(a: Step, b: Step, c: Step, d: Step, last: StepOf[R], /) -> Workflow[R]: ...
@overload
def chain(*steps: Step) -> Workflow[Any]: ...
def chain(*steps: Step) -> Workflow[Any]:
    """One after the other; when one does not complete, what comes behind it ends in the same way.

    ::

        await chain(download.call(url), resize.call("a.png"), publish.call("a.png")).submit()

    A step reads what it waited for: ``ctx.results``.
    """
    joined = _graph(_first(steps, "chain"))
    for step in steps[1:]:
        joined = _then(joined, _graph(step), DependencyKind.CHAIN)
    return Workflow(joined)


def fan_out(source: Step, *targets: StepOf[R]) -> Workflow[list[R]]:
    """One, then many side by side. The result is the list of theirs.

    ::

        await fan_out(unpack.call("a.zip"), *[resize.call(path) for path in paths]).submit()
    """
    _first(targets, "fan_out")
    return Workflow(_then(_graph(source), _beside(targets), DependencyKind.FAN_OUT))


def fan_in(*sources: Step, into: StepOf[R]) -> Workflow[R]:
    """Many side by side, then one. Behind a job that spawns, it waits for the children, too.

    ::

        await fan_in(*[resize.call(path) for path in paths], into=publish.call()).submit()
    """
    _first(sources, "fan_in")
    return Workflow(_then(_beside(sources), _graph(into), DependencyKind.FAN_IN))


def put_keys(jobs: Sequence[NewJob], key: str) -> None:
    """The key of the whole, a suffix for each."""
    for index, job in enumerate(jobs):
        if job.key is not None:
            raise UsageError(f"job {index} has the key {job.key!r} of its own; give keys to the jobs or to the whole")
        job.key = item_key(key, index)


def require_one_runtime(calls: Sequence[Call[Any]]) -> Runtime:
    runtimes = {call.runtime for call in calls}
    if len(runtimes) > 1:
        raise UsageError("these calls belong to several apps; jobs are submitted together to one app only")
    return runtimes.pop()


def _first(steps: Sequence[Step], name: str) -> Step:
    if not steps:
        raise UsageError(f"{name}() needs at least one call: {name}(resize.call('a.png'), …)")
    return steps[0]


def _graph(step: Any) -> Graph:
    if isinstance(step, Workflow):
        return step.graph
    if not isinstance(step, Call):
        raise UsageError(f"a workflow is made of calls, and {step!r} is not one; write: resize.call('a.png')")
    return Graph((Node(step),), heads=frozenset({step.id}), ends=step.id)


def _beside(steps: Sequence[Step]) -> Graph:
    parts = [_graph(step) for step in steps]
    return Graph(
        tuple(node for part in parts for node in part.nodes),
        heads=frozenset(head for part in parts for head in part.heads),
        ends=tuple(part.ends for part in parts),
    )


def _then(first: Graph, second: Graph, kind: DependencyKind) -> Graph:
    """Every head of the second waits for every tail of the first."""
    waits_for = tuple(Dependency(tail, kind) for tail in first.tails)
    behind = [
        replace(node, waits_for=node.waits_for + waits_for) if node.call.id in second.heads else node
        for node in second.nodes
    ]
    nodes = (*first.nodes, *behind)
    calls = [node.call for node in nodes]
    require_one_runtime(calls)
    if len({call.id for call in calls}) < len(calls):
        raise UsageError("one call stands twice in a workflow; make a call for each job")
    return Graph(nodes, heads=first.heads, ends=second.ends)


def _flat(ends: Ends) -> Iterator[UUID]:
    if isinstance(ends, UUID):
        yield ends
        return
    for one in ends:
        yield from _flat(one)


def _shaped(ends: Ends, results: Mapping[UUID, Any]) -> Any:
    if isinstance(ends, UUID):
        return results[ends]
    return [_shaped(one, results) for one in ends]
