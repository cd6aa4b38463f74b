"""Drive the model and the stores with one stream; stop at the first difference."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from holdfast.core.job import Job
from holdfast.testing.clock import ManualClock
from holdfast.testing.model import Model
from tests.differential.commands import Command
from tests.differential.coverage import Coverage, observe
from tests.differential.sides import AsyncModel, Book, Side, Told
from tests.differential.snapshots import answer_of, comparable, differences, take_snapshot
from tests.differential.streams import SeededChoices, next_script, start

FULL_SNAPSHOT_EVERY_STEPS: Final = 10


class Difference(AssertionError):
    """A store and the model disagree."""


@dataclass(slots=True)
class Episode:
    """One world from its beginning: the model, and the stores that must follow it."""

    clock: ManualClock
    stores: dict[str, Any]
    coverage: Coverage
    model: Model = field(init=False)
    book: Book = field(init=False)
    reference: Side = field(init=False)
    sides: list[Side] = field(init=False)
    jobs: dict[UUID, Job] = field(default_factory=dict)
    steps: int = 0

    def __post_init__(self) -> None:
        self.model = Model(self.clock)
        self.book = Book(self.clock, self.model)
        self.reference = Side("model", Told(AsyncModel(self.model)), self.clock)
        self.sides = [Side(name, Told(store), self.clock) for name, store in self.stores.items()]

    async def step(self, command: Command) -> None:
        call = command.prepare(self.book)
        expected = await answer_of(lambda: call.run(self.reference))
        answers = await asyncio.gather(*(answer_of(lambda s=side: call.run(s)) for side in self.sides))  # type: ignore[misc]
        for side, answer in zip(self.sides, answers, strict=True):
            _require_same(side.name, "answer", comparable(expected), comparable(answer))
        before = self.jobs
        await self.compare_snapshots()
        observe(self.coverage, call, expected, before=before, after=self.jobs, world=self.model.world)

    async def compare_snapshots(self, *, with_details: bool = True) -> None:
        """All jobs; their attempts and upstream only where the step changed a job, and now and then everywhere."""
        before, self.jobs = self.jobs, self._model_jobs()
        self.book.note(self.reference.leases)
        self.steps += 1
        is_full = self.steps % FULL_SNAPSHOT_EVERY_STEPS == 0
        changed = [job_id for job_id, job in self.jobs.items() if before.get(job_id) != job]
        details, ids = (list(self.jobs), self.book.job_ids) if is_full else (changed if with_details else [], [])
        expected = await take_snapshot(self.reference, ids, details=details)
        snapshots = await asyncio.gather(*(take_snapshot(side, ids, details=details) for side in self.sides))
        for side, snapshot in zip(self.sides, snapshots, strict=True):
            _require_same(side.name, "snapshot", expected, snapshot)

    def _model_jobs(self) -> dict[UUID, Job]:
        found = self.model.read(list(self.model.world.jobs))
        return {job.id: job for job in found if job is not None}


def _require_same(name: str, what: str, expected: Any, got: Any) -> None:
    if found := differences(expected, got, what):
        raise Difference(f"{name} differs from the model:\n  " + "\n  ".join(found))


OpenWorld = Callable[[], AbstractAsyncContextManager[tuple[ManualClock, dict[str, Any]]]]
"""A new clock, and every store empty and reading it."""


async def run_stream(commands: Sequence[Command], open_world: OpenWorld, coverage: Coverage | None = None) -> int:
    """Run one episode. A difference names the step and the command."""
    async with open_world() as (clock, stores):
        episode = Episode(clock, stores, coverage if coverage is not None else Coverage())
        for number, command in enumerate(commands):
            try:
                await episode.step(command)
            except AssertionError as difference:
                raise Difference(f"step {number}: {command}\n{difference}") from difference
    return len(commands)


def seeded_stream(seed: int, *, scripts: int) -> list[Command]:
    choices = SeededChoices(seed)
    return start(choices) + [command for _ in range(scripts) for command in next_script(choices)]
