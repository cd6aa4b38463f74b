"""One run on one store: start, strike by the plan, heal, drain, judge."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from random import Random
from typing import Final

from chaos.checker import Verdict, check
from chaos.doctor import examine
from chaos.faults import BY_NAME, FAULTS
from chaos.history import Trouble
from chaos.load import Load
from chaos.plan import Strike, plan
from chaos.server_clock import find_compiler
from chaos.watcher import Watcher
from chaos.world import WORKERS, World, opened

HELD_LEASES: Final = 5
"""What has to be held for a strike to count."""
MAX_AT_ONCE: Final = 3
START_SECONDS: Final = 60.0
STRIKE_TRIES: Final = 10
HELD_SECONDS: Final = 60.0
DRAIN_SECONDS: Final = 300.0
POLL_SECONDS: Final = 0.1
SPARE: Final = 1.15
"""How much faster the submitter goes than the time allows: restarts and outages cost it some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    store: str
    seed: str
    jobs: int
    seconds: float
    strikes_a_fault: int
    only: Sequence[str] = ()
    workers: int = WORKERS
    load: Load | None = None
    """Else as much as the number of jobs needs."""
    breaks: Mapping[str, str] = field(default_factory=dict)
    """What is broken on purpose: see chaos/fence.py."""

    @property
    def faults(self) -> list[str]:
        there = [fault.name for fault in FAULTS if self.store in fault.stores]
        if find_compiler() is None:
            there = [name for name in there if name != "server-clock"]
        return [name for name in there if not self.only or name in self.only]


@dataclass(slots=True)
class Outcome:
    store: str
    verdict: Verdict
    strikes: Counter[str] = field(default_factory=Counter)
    """By fault, those that met at least HELD_LEASES leases."""
    idle_strikes: Counter[str] = field(default_factory=Counter)
    fewest_held: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0
    pinned_part: float | None = None
    """Of the time until everything had ended, with a snapshot held; None where there is no such thing."""
    looks: int = 0
    """Of the watch."""

    @property
    def holds(self) -> bool:
        return self.verdict.holds and not self.problems


class Run:
    def __init__(self, settings: Settings, world: World, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._world = world
        self._say = say
        self._started = time.monotonic()
        self._turns = {name: asyncio.Semaphore(fault.at_once) for name, fault in BY_NAME.items()}
        self._room = asyncio.Semaphore(MAX_AT_ONCE)
        self._watcher = Watcher(world.database, world.excuses, world.services)
        self.strikes: Counter[str] = Counter()
        self.idle_strikes: Counter[str] = Counter()
        self.fewest_held: dict[str, int] = {}

    async def go(self) -> Verdict:
        world, settings = self._world, self._settings
        self._watcher.start()
        await self._until_held(START_SECONDS)
        self._started = time.monotonic()
        strikes = plan(
            settings.seed, settings.faults, strikes_a_fault=settings.strikes_a_fault, seconds=settings.seconds
        )
        noting = asyncio.create_task(self._note_enough())
        try:
            await self._strike_all(strikes)
            await self._until_enough()
        finally:
            noting.cancel()
        self._say("healing and draining")
        await world.submitter.stop()
        await world.heal()
        if not await world.drained(timeout_seconds=DRAIN_SECONDS):
            self._say("not everything has ended")
        world.problems += await self._watcher.stop()
        for worker in world.workers:
            await worker.stop()
            world.problems += worker.deaths
        await world.clean_up()
        findings = await examine(world.database.url, environment=world.environment_of_a_reader())
        overdue = self._watcher.watch.found
        return check(await asyncio.to_thread(world.history, overdue=overdue, examination=findings))

    @property
    def looks(self) -> int:
        return self._watcher.watch.looks

    async def stop(self) -> None:
        await self._watcher.stop()

    async def _strike_all(self, strikes: Sequence[Strike]) -> None:
        async with asyncio.TaskGroup() as group:
            for strike in strikes:
                await asyncio.sleep(self._started + strike.at_seconds - time.monotonic())
                group.create_task(self._strike_in_turn(strike))

    async def _strike_in_turn(self, strike: Strike) -> None:
        fault, transactions = BY_NAME[strike.fault], self._world.transactions
        # Two of most kinds at once would heal each other too early.
        async with self._turns[fault.name]:
            if fault.holds:
                async with transactions.shared():
                    return await self._strike(strike)
            async with transactions.alone() if fault.is_alone else nullcontext(), self._room:
                return await self._strike(strike)

    async def _strike(self, strike: Strike) -> None:
        fault, world = BY_NAME[strike.fault], self._world
        for _ in range(STRIKE_TRIES):
            held = await self._until_held(HELD_SECONDS)
            began_at = time.monotonic()
            try:
                what = await fault.strike(world, Random(strike.seed))
                world.troubles.append(Trouble(fault=fault.name, began_at=began_at, ended_at=time.monotonic()))
                break
            except TimeoutError:
                # Another fault may have kept what is to be struck from being there.
                continue
        else:
            world.problems.append(f"{fault.name} found nothing to strike")
            return
        if held >= HELD_LEASES:
            self.strikes[fault.name] += 1
            self.fewest_held[fault.name] = min(held, self.fewest_held.get(fault.name, held))
        else:
            self.idle_strikes[fault.name] += 1
        self._say(f"{fault.name}: {what} ({held} leases)")

    async def _until_held(self, timeout_seconds: float) -> int:
        """Until enough leases are held for a strike to count; how many there are now."""
        ends_at = time.monotonic() + timeout_seconds
        while True:
            held = await self._world.count_held()
            if held >= HELD_LEASES or time.monotonic() >= ends_at:
                return held
            await asyncio.sleep(POLL_SECONDS)

    async def _until_enough(self) -> None:
        ends_at = time.monotonic() + max(self._settings.seconds, START_SECONDS)
        while not self._world.has_enough and time.monotonic() < ends_at:  # noqa: ASYNC110 - the database has no event
            await asyncio.sleep(POLL_SECONDS)

    async def _note_enough(self) -> None:
        """However long the faults take: once there are enough jobs, slow ones only."""
        while self._world.accepted < self._settings.jobs:  # noqa: ASYNC110 - the database has no event
            await asyncio.sleep(POLL_SECONDS)
        self._world.note_enough()


async def run(settings: Settings, say: Callable[[str], None]) -> Outcome:
    started = time.monotonic()
    load = settings.load or Load(
        jobs_a_second=SPARE * settings.jobs / settings.seconds, has_keys=settings.store != "standby"
    )
    async with opened(
        settings.store,
        seed=settings.seed,
        load=load,
        workers=settings.workers,
        breaks=settings.breaks,
    ) as world:
        one = Run(settings, world, say)
        try:
            verdict = await one.go()
        finally:
            await one.stop()
        return Outcome(
            store=world.database.name,
            verdict=verdict,
            strikes=one.strikes,
            idle_strikes=one.idle_strikes,
            fewest_held=one.fewest_held,
            problems=world.problems,
            seconds=time.monotonic() - started,
            pinned_part=world.snapshot.held_part if world.snapshot is not None else None,
            looks=one.looks,
        )
