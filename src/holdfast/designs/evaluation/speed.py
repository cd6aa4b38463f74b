"""The required speeds, each measured beside a bare grpc.aio echo in the same run, in turns."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from holdfast.designs.evaluation import fairness, usage
from holdfast.designs.evaluation.designs import TITLES
from holdfast.designs.evaluation.facts import about_machine
from holdfast.designs.evaluation.folders import Folder
from holdfast.designs.evaluation.generators import Generators
from holdfast.designs.evaluation.profiles import Cell, Mix
from holdfast.designs.evaluation.run import SAMPLES, Open, Watcher
from holdfast.designs.evaluation.samples import Sample, append
from holdfast.designs.evaluation.schedule import seed_of
from holdfast.designs.evaluation.speed_report import write_speed
from holdfast.designs.evaluation.speed_rows import LONG_JOB_MS, MANY_CLIENTS, NODE_CLIENTS, Row, make_rows
from holdfast.designs.evaluation.systems import open_chain, open_echo
from holdfast.designs.evaluation.visits import System, measure

SIDES: Final = 3
"""That take turns."""
IDLE_RATE: Final = 8.0
DRAIN_SECONDS: Final = 10.0
SEED: Final = 20261116


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How long each part is measured."""

    warm_up_seconds: float = 0.3
    turn_seconds: float = 1.0
    idle_seconds: float = 8.0
    rest_seconds: float = 2.0
    many_seconds: float = 2.0


@dataclass(slots=True, kw_only=True)
class Speed:
    """The samples of a speed run, by side."""

    folder: Path
    open: Open
    watcher: Watcher
    designs: Sequence[str]
    rounds: int
    sizes: Sizes = field(default_factory=Sizes)
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    rest: dict[str, float] = field(default_factory=dict)
    """The share of a core that an idle design used."""

    async def run(self) -> list[Row]:
        turns = SIDES * self.rounds * sum(design in self.designs for design in ("a", "b"))
        self.watcher.begin(2 * len(self.designs) + turns)
        for design in self.designs:
            await self._idle_and_many(design)
        if "b" in self.designs:
            await self._node()
        if "a" in self.designs:
            await self._chain()
        return make_rows(self.samples, self.rest, self.designs)

    async def _idle_and_many(self, design: str) -> None:
        idle = Cell(workload="idle", pattern="journey", loop="open", rate=IDLE_RATE, drain_seconds=DRAIN_SECONDS)
        many = Cell(
            workload="many", pattern="journey", loop="closed", clients=MANY_CLIENTS, drain_seconds=DRAIN_SECONDS
        )
        async with self.open(design) as system, Generators.started(1) as generators:
            await generators.connect(system.targets)
            self.watcher.step(f"{TITLES[design]}, idle")
            await self._measure(f"{design} idle", idle, system, generators, seconds=self.sizes.idle_seconds)
            await self._rest(system)
            self.watcher.step(f"{TITLES[design]}, {MANY_CLIENTS} clients")
            await self._measure(f"{design} many", many, system, generators, seconds=self.sizes.many_seconds)

    async def _rest(self, system: System) -> None:
        if system.processes is None:
            return
        before = usage.cpu_seconds(system.processes())
        await asyncio.sleep(self.sizes.rest_seconds)
        self.rest[system.design] = (usage.cpu_seconds(system.processes()) - before) / self.sizes.rest_seconds

    async def _node(self) -> None:
        async with open_echo() as echo, self.open("b") as nodes, Generators.started(1) as generators:
            submit = {"clients": NODE_CLIENTS}
            sides = {
                "echo": (echo, _submits(LONG_JOB_MS, **submit)),
                "node": (_only(nodes, 0), _submits(LONG_JOB_MS, **submit)),
                "node running": (_only(nodes, 1), _submits(0, **submit)),
            }
            await self._in_turns(sides, generators)

    async def _chain(self) -> None:
        async with AsyncExitStack() as stack:
            echo = await stack.enter_async_context(open_echo())
            chain = await stack.enter_async_context(open_chain())
            whole = await stack.enter_async_context(self.open("a"))
            generators = await stack.enter_async_context(Generators.started(1))
            sides = {
                "single echo": (echo, _submits(LONG_JOB_MS, clients=1)),
                "chain": (chain, _submits(LONG_JOB_MS, clients=1)),
                "gateway": (whole, _submits(LONG_JOB_MS, clients=1)),
            }
            await self._in_turns(sides, generators)

    async def _in_turns(self, sides: Mapping[str, tuple[System, Cell]], generators: Generators) -> None:
        """Round by round, in an order that turns: each side has neighbours of the same seconds."""
        names = list(sides)
        for number in range(self.rounds):
            for name in names if number % 2 == 0 else reversed(names):
                system, cell = sides[name]
                self.watcher.step(f"round {number + 1}: {name}, {cell.load}")
                await generators.connect(system.targets)
                await self._measure(name, cell, system, generators, number=number, seconds=self.sizes.turn_seconds)

    async def _measure(
        self,
        side: str,
        cell: Cell,
        system: System,
        generators: Generators,
        *,
        number: int = 0,
        seconds: float,
    ) -> None:
        sample = await measure(
            cell,
            system,
            generators,
            round_number=number,
            warm_up_seconds=self.sizes.warm_up_seconds,
            measure_seconds=seconds,
            seed=seed_of(SEED, number, cell.key),
        )
        self.samples.setdefault(side, []).append(sample)
        append(self.folder / SAMPLES, sample)


def _submits(job_ms: int, *, clients: int) -> Cell:
    return Cell(workload="submits", pattern="mix", loop="closed", clients=clients, job_ms=job_ms, mix=Mix(submit=1))


def _only(system: System, index: int) -> System:
    """One node of several: its own process and no other."""
    processes = None if system.processes is None else [list(system.processes())[index]]
    return System(
        design=f"{system.design} node {index}",
        targets=[system.targets[index]],
        processes=None if processes is None else lambda: processes,
    )


async def measure_speed(
    *,
    open_design: Open,
    results: Folder,
    watcher: Watcher,
    designs: Sequence[str],
    rounds: int,
    command: str,
    force: bool = False,
    patience_seconds: float = 0.0,
) -> tuple[Path, list[Row]]:
    """Runs it and writes what it gave; answers where that is, and the table."""
    checks = [await fairness.wait_until_idle(patience_seconds)]
    fairness.require(checks, force=force)
    started_at = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    folder = results.begin()
    rows = await Speed(folder=folder, open=open_design, watcher=watcher, designs=designs, rounds=rounds).run()
    write_speed(
        folder,
        rows,
        command=command,
        started_at=started_at,
        machine=about_machine(),
        checks=checks,
        rounds=rounds,
    )
    return results.finish(), rows
