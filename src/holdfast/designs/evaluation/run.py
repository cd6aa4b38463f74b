"""A run: rounds, in each every design by itself, in each the cells of the profile; then the report.

A visit to a design starts it, drives the cells at it and stops it. Where a cell leaves jobs behind that nobody waits
for, the design is restarted before the next cell, so that every cell begins with an empty queue.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

import msgspec

from holdfast.core.errors import Unavailable
from holdfast.designs.evaluation import fairness
from holdfast.designs.evaluation.designs import TITLES
from holdfast.designs.evaluation.facts import Facts, about_machine, write_facts
from holdfast.designs.evaluation.folders import Folder
from holdfast.designs.evaluation.generators import Generators
from holdfast.designs.evaluation.profiles import Cell, Profile
from holdfast.designs.evaluation.report import write_report
from holdfast.designs.evaluation.samples import Sample, append
from holdfast.designs.evaluation.schedule import orders, seed_of
from holdfast.designs.evaluation.visits import System, measure

SAMPLES: Final = "samples.jsonl"
SLOT_JOBS_A_SLOT: Final = 2
SLOT_JOB_MS: Final = 500

Open = Callable[[str], AbstractAsyncContextManager[System]]
"""Starts a design by its key; on leaving, stops it."""


class Watcher(Protocol):
    """Is told how far the run is."""

    def begin(self, steps: int) -> None: ...
    def step(self, what: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    name: str
    command: str
    profile_name: str
    profile: Profile
    designs: Sequence[str]
    addresses: Mapping[str, Sequence[str]] = field(default_factory=dict)
    force: bool = False
    patience_seconds: float = 0.0


@dataclass(slots=True, kw_only=True)
class Run:
    plan: Plan
    open: Open
    watcher: Watcher
    folder: Path
    checks: list[fairness.Check] = field(default_factory=list)

    async def rounds(self) -> None:
        cells = self.plan.profile.cells()
        self.watcher.begin(self.plan.profile.rounds * len(self.plan.designs) * len(cells))
        for number, order in enumerate(orders(self.plan.designs, self.plan.profile.rounds)):
            for design in order:
                await self._visit(design, number, cells)

    async def _visit(self, design: str, number: int, cells: Sequence[Cell]) -> None:
        left = deque(cells)
        is_first = number == 0
        async with Generators.started(self.plan.profile.generators) as generators:
            while left:
                async with self.open(design) as system:
                    await generators.connect(system.targets)
                    if is_first:
                        await self._check(system, generators)
                        is_first = False
                    await self._cells(system, generators, number, left)

    async def _cells(self, system: System, generators: Generators, number: int, left: deque[Cell]) -> None:
        """As many as the system can take: one with jobs left over is done with."""
        profile = self.plan.profile
        while left:
            cell = left.popleft()
            self.watcher.step(f"round {number + 1}: {TITLES[system.design]}, {cell.workload}, {cell.load}")
            sample = await measure(
                cell,
                system,
                generators,
                round_number=number,
                warm_up_seconds=profile.warm_up_seconds,
                measure_seconds=profile.measure_seconds,
                seed=seed_of(profile.seed, number, cell.key),
            )
            append(self.folder / SAMPLES, sample)
            self._check_ingress(sample)
            if not sample.is_accounted_for and not await self._is_empty_again(system, generators):
                return

    async def _is_empty_again(self, system: System, generators: Generators) -> bool:
        """Not one that a restart empties. Otherwise what is left is cancelled, and must be gone."""
        if system.processes is not None and not system.keeps_jobs:
            return False
        left = await generators.cancel()
        if left:
            raise Unavailable(f"{TITLES[system.design]}: {left} jobs of a cell did not end; restart its servers")
        return True

    async def _check(self, system: System, generators: Generators) -> None:
        slots = self.plan.profile.slots
        starts = await generators.slots(SLOT_JOBS_A_SLOT * slots, job_ms=SLOT_JOB_MS)
        checks = [
            fairness.check_targets(system.design, system.targets),
            fairness.check_slots(system.design, slots=slots, seen=fairness.slots_seen(starts, job_ms=SLOT_JOB_MS)),
        ]
        self.checks += checks
        fairness.require(checks, force=self.plan.force)

    def _check_ingress(self, sample: Sample) -> None:
        check = fairness.check_round_robin(sample, generators=self.plan.profile.generators)
        if not check.holds:
            self.checks.append(check)
            fairness.require([check], force=self.plan.force)


async def evaluate(plan: Plan, *, open_design: Open, results: Folder, watcher: Watcher) -> Path:
    """Runs the plan and writes its results; answers where they are."""
    checks = [fairness.check_split(design, plan.profile.slots) for design in plan.designs]
    checks += [fairness.check_targets(design, given) for design, given in plan.addresses.items()]
    fairness.require(checks)
    idle = await fairness.wait_until_idle(plan.patience_seconds)
    fairness.require([idle], force=plan.force)
    folder, started_at, began = results.begin(), datetime.now(UTC), time.monotonic()
    run = Run(plan=plan, open=open_design, watcher=watcher, folder=folder, checks=[idle, *checks])
    write_facts(folder, facts_of(run, started_at))
    await run.rounds()
    write_facts(folder, msgspec.structs.replace(facts_of(run, started_at), seconds=time.monotonic() - began))
    watcher.step("the report")
    write_report(folder)
    return results.finish()


def facts_of(run: Run, started_at: datetime) -> Facts:
    plan = run.plan
    return Facts(
        name=plan.name,
        command=plan.command,
        profile_name=plan.profile_name,
        profile=plan.profile,
        designs=list(plan.designs),
        addresses={design: list(given) for design, given in plan.addresses.items()},
        started_at=f"{started_at:%Y-%m-%d %H:%M} UTC",
        machine=about_machine(),
        checks=list(run.checks),
        forced=plan.force,
    )
