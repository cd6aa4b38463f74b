"""One cell measured on one running system: the load, and beside it what every process used meanwhile."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.designs.evaluation import fairness, usage
from holdfast.designs.evaluation.generators import Generators
from holdfast.designs.evaluation.profiles import Cell
from holdfast.designs.evaluation.samples import Sample

LEAD_SECONDS: Final = 0.1
"""So that every generator has its orders before the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A design that is up."""

    design: str
    targets: Sequence[str]
    processes: Callable[[], Sequence[int]] | None
    """None: not ours, so that neither its CPU nor its memory is seen, and it cannot be restarted."""
    keeps_jobs: bool = False
    """Would it still have the jobs after a restart?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    design: float | None
    generators: float
    ours: float
    """This process: it only waits."""
    machine: float

    def since(self, earlier: "Used") -> "Used":
        known = self.design is not None and earlier.design is not None
        return Used(
            design=(self.design or 0.0) - (earlier.design or 0.0) if known else None,
            generators=self.generators - earlier.generators,
            ours=self.ours - earlier.ours,
            machine=self.machine - earlier.machine,
        )

    @property
    def others(self) -> float | None:
        if self.design is None:
            return None
        return max(0.0, self.machine - self.design - self.generators - self.ours)


def used(system: System, generators: Generators) -> Used:
    return Used(
        design=None if system.processes is None else usage.cpu_seconds(system.processes()),
        generators=usage.cpu_seconds(generators.pids),
        ours=usage.cpu_seconds([os.getpid()]),
        machine=usage.machine().busy_seconds,
    )


async def measure(
    cell: Cell,
    system: System,
    generators: Generators,
    *,
    round_number: int,
    warm_up_seconds: float,
    measure_seconds: float,
    seed: str,
) -> Sample:
    await generators.open_connections(cell)
    starts_at = time.monotonic() + LEAD_SECONDS
    opens_at = starts_at + warm_up_seconds
    closes_at = opens_at + measure_seconds
    async with asyncio.TaskGroup() as group:
        load = group.create_task(
            generators.run(cell, starts_at=starts_at, opens_at=opens_at, closes_at=closes_at, seed=seed)
        )
        await asyncio.sleep(opens_at - time.monotonic())
        before = used(system, generators)
        await asyncio.sleep(closes_at - time.monotonic())
        spent = used(system, generators).since(before)
        memory = None if system.processes is None else usage.memory_mib(system.processes())
    return Sample(
        design=system.design,
        round=round_number,
        cell=cell,
        seconds=measure_seconds,
        design_cpu_seconds=spent.design,
        generator_cpu_seconds=spent.generators,
        other_cpu_seconds=spent.others,
        memory_mib=memory,
        cores=fairness.cores(),
        **load.result(),
    )
