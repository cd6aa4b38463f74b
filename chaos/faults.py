"""What goes wrong, one function a kind. Each strikes, waits as long as it lasts, and heals what it did.

A fault says in a few words what it did. What it expects of the queue there and then (a program that must be refused, a
worker that must survive) it checks itself and puts into ``world.problems``; everything else is for the checker.
"""

import asyncio
import contextlib
import os
import resource
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final
from uuid import UUID

from chaos import scale
from chaos.databases import Away, PostgresDatabase
from chaos.disks import Disk
from chaos.failover import fail_over, fail_over_synchronously
from chaos.held import commit_late, hold_transaction
from chaos.history import Trouble
from chaos.processes import ROOT, Program, children_of, die_with_parent
from chaos.proxy import ClaimTrap, Link
from chaos.world import World
from holdfast.cli.exits import Exit

HOUR_SECONDS: Final = 3600
POLL_SECONDS: Final = 0.05
PATIENCE_SECONDS: Final = 20.0
HELD_BACK_SECONDS: Final = 0.5
START_SECONDS: Final = 60.0
LEFT_BYTES: Final = 4 * 1024 * 1024
"""Of address space, for a child under pressure."""


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    about: str
    strike: Callable[[World, Random], Awaitable[str]]
    stores: tuple[str, ...] = ("postgres", "sqlite")
    """``standby`` is PostgreSQL, too, with a standby."""
    at_once: int = 1
    """How many of its kind may strike at the same time."""
    holds: bool = False
    """It holds a transaction open for long. Such faults strike beside the others."""
    is_alone: bool = False
    """It would end or block every transaction that is held: it strikes while there is none."""


# processes


async def kill_worker(world: World, rng: Random) -> str:
    worker = await _running(world, rng)
    held = await _held_by(world, worker)
    began_at = time.monotonic()
    worker.signal(signal.SIGKILL)
    _cut_off(world, "kill-worker", began_at, held)
    await worker.wait_ended()
    return worker.name


async def kill_submitter(world: World, rng: Random) -> str:
    """Between a commit and its answer: by its own hand there, or while the network holds the answers back."""
    submitter = world.submitter
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not _submits(world):  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(POLL_SECONDS)
        if not world.links or rng.random() < 0.5:
            submitter.signal(signal.SIGUSR1)
            await submitter.wait_ended()
            return "after a commit"
        link = world.links[-1]
        link.hold_answers()
        try:
            await asyncio.sleep(HELD_BACK_SECONDS)
            submitter.signal(signal.SIGKILL)
            await submitter.wait_ended()
        finally:
            link.release_answers()
        return "while answers were held back"


def _submits(world: World) -> bool:
    """It has got so far that it hears signals."""
    log = world.folder / f"submits-{world.submitter.starts - 1}"
    return world.submitter.pid is not None and log.exists() and log.stat().st_size > 0


async def stop_worker(world: World, rng: Random) -> str:
    worker = await _running(world, rng)
    seconds = rng.uniform(*scale.STOP_SECONDS)
    held = await _held_by(world, worker)
    began_at, pid = time.monotonic(), worker.pid
    with world.excuses.impaired(worker.name):
        worker.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            worker.signal(signal.SIGCONT)
            ended_at = time.monotonic()
            world.troubles.append(Trouble(fault="stop-worker", began_at=began_at, ended_at=ended_at, frozen=pid))
    _cut_off(world, "stop-worker", began_at, held)
    return f"{worker.name} for {seconds:.1f} s"


async def press_memory(world: World, rng: Random) -> str:
    """A child process is killed as the system does it when memory is short, or finds none to be had."""
    worker, child = await _child(world, rng)
    pid = worker.pid
    if rng.random() < 0.5:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        what = "killed"
    else:
        what = "starved"
        await _starve(child)
    await asyncio.sleep(scale.HEARTBEAT_SECONDS)
    if worker.pid is not None and pid != worker.pid:
        what += ", and its worker was killed meanwhile"
    return f"a child of {worker.name} was {what}"


def _pages(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0])


async def _starve(child: int) -> None:
    with contextlib.suppress(OSError):
        pages = _pages(child)
        limits = resource.prlimit(child, resource.RLIMIT_AS)
        resource.prlimit(child, resource.RLIMIT_AS, (pages * resource.getpagesize() + LEFT_BYTES, limits[1]))
        await asyncio.sleep(1.5)
        resource.prlimit(child, resource.RLIMIT_AS, limits)


# the database


async def kill_postgres(world: World, rng: Random) -> str:
    assert world.server is not None
    seconds = rng.uniform(0.0, 1.5)
    with world.excuses.away():
        _upset(world, "kill-postgres")
        await asyncio.to_thread(world.server.kill9)
        try:
            await asyncio.sleep(seconds)
        finally:
            await asyncio.to_thread(world.server.start)
    return f"away for {seconds:.1f} s"


def _upset(world: World, fault: str) -> None:
    now = time.monotonic()
    world.troubles.append(Trouble(fault=fault, began_at=now, ended_at=now, is_upset=True))


async def terminate_connections(world: World, _: Random) -> str:
    database = world.database
    assert isinstance(database, PostgresDatabase)
    count = await _patiently(database.terminate_connections)
    world.excuses.note_outage()
    return f"{count} connections"


async def migrate(world: World, rng: Random) -> str:
    """The next version of the schema comes while this one's programs run: they go on. It lets others start, or not."""
    is_compatible = rng.random() < 0.5
    world.is_refusing = not is_compatible
    try:
        with world.excuses.away():
            await _patiently(lambda: world.database.grow(is_compatible=is_compatible))
        code, words = await _start_one_more(world)
        if is_compatible and code != Exit.DONE:
            world.problems.append(f"a program did not start beside a newer schema: exit {code}: {words[-300:]}")
        if not is_compatible and (code != Exit.WRONG or "chema" not in words):
            world.problems.append(f"a program of the old schema was not refused: exit {code}: {words[-300:]}")
        await asyncio.sleep(rng.uniform(0.2, 1.0))
    finally:
        with world.excuses.away():
            await _patiently(world.database.shrink)
        world.is_refusing = False
    return f"older programs were {'welcome' if is_compatible else 'refused at their start'}"


async def _start_one_more(world: World) -> tuple[int | None, str]:
    """A program of this version, which only looks at the queues."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "queues", "--connect-timeout", f"{START_SECONDS / 2:.0f}"),
        cwd=ROOT,
        env=world.environment_of_a_worker(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        preexec_fn=die_with_parent,
    )
    try:
        async with asyncio.timeout(START_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        output, _ = await process.communicate()
    return process.returncode, output.decode(errors="replace")


# the network


async def _link(world: World, rng: Random, links: int) -> tuple[str, Link]:
    """One of the first so many that has connections: a worker's, or the submitter's, which is the last."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = [number for number, link in enumerate(world.links[:links]) if link.connections]
            if found:
                number = rng.choice(found)
                return (world.workers[number].name if number < len(world.workers) else "the submitter"), world.links[
                    number
                ]
            await asyncio.sleep(POLL_SECONDS)


async def slow_network(world: World, rng: Random) -> str:
    name, link = await _link(world, rng, len(world.links))
    delay_seconds = rng.uniform(0.02, 0.3)
    with world.excuses.impaired(name):
        link.slow(delay_seconds)
        try:
            await asyncio.sleep(rng.uniform(2.0, 4.0))
        finally:
            link.slow(0.0)
    return f"{delay_seconds * 1000:.0f} ms each way for {name}"


async def stall_network(world: World, rng: Random) -> str:
    name, link = await _link(world, rng, len(world.workers))
    seconds = rng.uniform(*scale.STALL_SECONDS)
    held = await _held_by(world, _worker(world, name))
    began_at = time.monotonic()
    with world.excuses.impaired(name):
        link.stall()
        try:
            await asyncio.sleep(seconds)
        finally:
            link.resume()
    _cut_off(world, "stall", began_at, held)
    return f"{name} for {seconds:.1f} s"


async def reset_network(world: World, rng: Random) -> str:
    name, link = await _link(world, rng, len(world.links))
    return f"{link.reset()} connections of {name}"


async def cut_network(world: World, rng: Random) -> str:
    name, link = await _link(world, rng, len(world.links))
    with world.excuses.impaired(name):
        return f"{link.cut()} connections of {name}"


async def lose_claim(world: World, rng: Random) -> str:
    """A claim is lost on its way, there or back, and its worker ends before it can ask again."""
    end = rng.choice((signal.SIGTERM, signal.SIGKILL))
    delivered = asyncio.Event()
    if is_answer_lost := rng.random() < 0.5:
        delivered.set()
    name, link = await _link(world, rng, len(world.workers))
    worker = _worker(world, name)
    with world.excuses.impaired(name):
        trap = ClaimTrap(lambda: _end(worker, end), delivered)
        link.lose_claim(trap)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await trap.caught.wait()
        finally:
            link.lose_claim(None)
        began_at = time.monotonic()
        if is_answer_lost:
            await asyncio.sleep(POLL_SECONDS)
        await worker.wait_ended()
        delivered.set()
        held = await _held_by(world, worker)
    _cut_off(world, "lost-claim", began_at, held)
    return f"{name}, {'the answer' if is_answer_lost else 'until it had ended'}; {end.name}"


def _end(worker: Program, number: signal.Signals) -> None:
    worker.signal(number)


# clocks and disks


async def jump_clock(world: World, rng: Random) -> str:
    if len(world.clocks) == 1:
        # On SQLite there is one clock, the machine's.
        _upset(world, "clock")
        world.clocks[0].jump(HOUR_SECONDS)
        return f"the machine's is {world.clocks[0].offset_seconds // HOUR_SECONDS} h ahead"
    number = rng.randrange(len(world.clocks))
    seconds = rng.choice((-HOUR_SECONDS, HOUR_SECONDS))
    world.clocks[number].set(seconds)
    try:
        await asyncio.sleep(rng.uniform(1.0, 4.0))
    finally:
        world.clocks[number].set(0)
    return f"{world.workers[number].name}'s by {seconds // HOUR_SECONDS:+} h"


async def jump_server_clock(world: World, rng: Random) -> str:
    """Five hours forward or back, while the server runs; then right again. Leases end early in both moments."""
    assert world.server_clock is not None
    seconds = rng.choice((-scale.SERVER_CLOCK_SECONDS, scale.SERVER_CLOCK_SECONDS))
    _upset(world, "server-clock")
    world.server_clock.set(seconds)
    try:
        await asyncio.sleep(rng.uniform(1.0, 4.0))
    finally:
        _upset(world, "server-clock")
        world.server_clock.set(0)
    return f"by {seconds // HOUR_SECONDS:+} h, and back"


async def fill_store_disk(world: World, rng: Random) -> str:
    assert world.store_disk is not None
    with world.excuses.away():
        return await _fill(world, world.store_disk, rng)


async def fill_log_disk(world: World, rng: Random) -> str:
    return await _fill(world, world.log_disk, rng)


async def _fill(world: World, disk: Disk, rng: Random) -> str:
    seconds = rng.uniform(1.0, 3.0)
    await asyncio.to_thread(disk.fill, _writers(world))
    try:
        await asyncio.sleep(seconds)
    finally:
        # Asked again: a process that was started meanwhile has the limits of the one that started it.
        await asyncio.to_thread(disk.free, _writers(world))
    return f"for {seconds:.1f} s"


def _writers(world: World) -> list[int]:
    return [process for pid in world.pids for process in (pid, *children_of(pid))]


# choosing


async def _running(world: World, rng: Random) -> Program:
    """Any lease, and then its worker: so that something is hit."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            with contextlib.suppress(Away):
                held = await asyncio.to_thread(world.database.holders)
                running = [worker for worker in world.workers if worker.pid is not None and held.get(worker.name)]
                if running:
                    return rng.choices(running, weights=[held[worker.name] for worker in running])[0]
            await asyncio.sleep(POLL_SECONDS)


def _worker(world: World, name: str) -> Program:
    return next(worker for worker in world.workers if worker.name == name)


async def _held_by(world: World, worker: Program) -> list[UUID]:
    """The jobs whose next start is waited for if this worker is gone; none where nobody can say."""
    try:
        return await asyncio.to_thread(world.database.held_by, worker.name)
    except Away:
        return []


def _cut_off(world: World, fault: str, began_at: float, held: list[UUID]) -> None:
    world.troubles.append(Trouble(fault=fault, began_at=began_at, ended_at=began_at, cut_off=tuple(held)))


async def _child(world: World, rng: Random) -> tuple[Program, int]:
    """One that runs a handler."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            busy = world.busy_processes()
            found = [
                (worker, child)
                for worker in world.workers
                if worker.pid is not None
                for child in children_of(worker.pid)
                if child in busy
            ]
            if found:
                return rng.choice(found)
            await asyncio.sleep(POLL_SECONDS)


async def _patiently(work: Callable[[], int | None]) -> int | None:
    """Another fault may have the database away, its disk full or its lock held just now."""
    async with asyncio.timeout(3 * PATIENCE_SECONDS):
        while True:
            try:
                return await asyncio.to_thread(work)
            except Away:
                await asyncio.sleep(POLL_SECONDS)


POSTGRES_ONLY: Final = ("postgres",)
STANDBY_ONLY: Final = ("standby",)
EVERYWHERE: Final = ("postgres", "sqlite", "standby")
FAULTS: Final = (
    Fault("kill-worker", "kill -9 of a worker", kill_worker, EVERYWHERE),
    Fault("kill-submitter", "kill -9 of the submitter between commit and answer", kill_submitter, EVERYWHERE),
    Fault("stop-worker", "SIGSTOP of a worker for longer than its leases, then SIGCONT", stop_worker, EVERYWHERE),
    Fault("kill-postgres", "PostgreSQL killed -9 and restarted", kill_postgres, POSTGRES_ONLY, is_alone=True),
    Fault("terminate", "PostgreSQL's connections terminated", terminate_connections, ("postgres", "standby")),
    Fault("failover", "the primary killed -9 and its standby promoted, which lags", fail_over, STANDBY_ONLY),
    Fault("failover-sync", "the same with a synchronous standby", fail_over_synchronously, STANDBY_ONLY),
    Fault("latency", "the network of one process slowed", slow_network, POSTGRES_ONLY),
    Fault("stall", "the network of a worker stalled for longer than its leases", stall_network, POSTGRES_ONLY),
    Fault("reset", "the connections of one process reset", reset_network, POSTGRES_ONLY),
    Fault("half-open", "the connections of one process half open, for good", cut_network, POSTGRES_ONLY),
    Fault("lost-claim", "a claim lost between worker and server, and the worker ended", lose_claim, POSTGRES_ONLY),
    Fault(
        "held-transaction",
        "a caller's transaction open for longer than the worker timeout",
        hold_transaction,
        at_once=4,
        holds=True,
    ),
    Fault(
        "late-commit",
        "submits committed three sweep windows late",
        commit_late,
        POSTGRES_ONLY,
        at_once=6,
        holds=True,
    ),
    Fault("clock", "a clock jumped by an hour", jump_clock),
    Fault("server-clock", "PostgreSQL's clock jumped by five hours, and back", jump_server_clock, POSTGRES_ONLY),
    Fault("disk-full", "the disk full under SQLite", fill_store_disk, ("sqlite",)),
    Fault("log-disk-full", "the disk full under the log store", fill_log_disk),
    Fault("migration", "two versions of the schema", migrate, is_alone=True),
    Fault("memory", "memory pressure in a child process", press_memory),
)
BY_NAME: Final = {fault.name: fault for fault in FAULTS}
