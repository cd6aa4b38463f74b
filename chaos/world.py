"""One store under fire: its database, its workers, its submitter, and what faults may do to them."""

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from chaos import ledger, scale
from chaos.caller import CallerLog
from chaos.clock import CLOCK_VARIABLE, Clock
from chaos.databases import Away, Database, PostgresDatabase, SQLiteDatabase
from chaos.disks import Disk
from chaos.excuses import Excuses
from chaos.history import Failover, History, Overdue, Trouble, read_answers
from chaos.load import ENOUGH, Load
from chaos.overdue import Service
from chaos.processes import Program
from chaos.proxy import Link
from chaos.server_clock import ServerClock, find_compiler
from chaos.snapshot import PinnedSnapshot
from chaos.turns import Turns
from holdfast.wiring import LOGS_VARIABLE, URL_VARIABLE
from tests.servers import PostgresPair, PostgresServer
from tests.servers.process import wait_until

WORKERS: Final = 5
PAIR: Final = 2
"""The number of the program with two workers in one process, where there are enough programs for it."""
SECOND_APP: Final = (3, 4)
"""The numbers of those that serve the second app."""
CONCURRENCY: Final = 10
QUEUES: Final = "loop=4,thread=2,process=2"
SECOND_QUEUES: Final = "loop=2,thread=1"
FIRST_TYPES: Final = frozenset({"on_loop", "in_thread", "in_process"})
SECOND_TYPES: Final = frozenset({"second_on_loop", "second_in_thread"})
PROCESS_SLOTS: Final = 3
STORE_DISK_BYTES: Final = 512 * 1024 * 1024
LOG_DISK_BYTES: Final = 64 * 1024 * 1024
WATCH_SECONDS: Final = 0.5
HEALED_CLOCK_SECONDS: Final = 60
NOTHING: Final[Mapping[str, str]] = {}


class World:
    def __init__(
        self, folder: Path, *, seed: str, load: Load, workers: int = WORKERS, breaks: Mapping[str, str] = NOTHING
    ) -> None:
        self.folder = folder
        self.seed = seed
        self.load = load
        self.server: PostgresServer | None = None
        self.pair: PostgresPair | None = None
        self.pair_turn = asyncio.Lock()
        """Whoever changes who is the primary."""
        self.failovers: list[Failover] = []
        self.store_disk: Disk | None = None
        self.log_disk = Disk(folder / "logs", size_bytes=LOG_DISK_BYTES)
        self.workers: list[Program] = []
        self.links: list[Link] = []
        """One a worker, in their order, and the submitter's last; none on SQLite."""
        self.clocks: list[Clock] = []
        """One a worker; on SQLite one for all: there the store's clock is the machine's."""
        self.problems: list[str] = []
        self.troubles: list[Trouble] = []
        self.is_refusing = False
        self.excuses = Excuses()
        self.transactions = Turns()
        self.callers = CallerLog(folder / "submits-callers")
        self.server_clock: ServerClock | None = None
        self.snapshot: PinnedSnapshot | None = None
        self.database: Database
        self.submitter: Program
        self.accepted = 0
        self.has_enough = False
        self._count = workers
        self._breaks = breaks

    # beginning and end

    async def open_postgres(self) -> None:
        self.server_clock = ServerClock() if find_compiler() is not None else None
        self.server = await asyncio.to_thread(_started, self.server_clock)
        self.database = database = PostgresDatabase(self.server)
        await database.create()
        self.snapshot = PinnedSnapshot(database.url)
        self.snapshot.start()
        port = urlsplit(database.url).port
        assert port is not None
        self.links = [Link("127.0.0.1", port) for _ in range(self._count + 1)]
        for link in self.links:
            await link.open()
        self.clocks = [Clock(self.folder / f"clock-{number}") for number in range(self._count)]
        self._start_programs([_through(database.url, link) for link in self.links], clocks=self.clocks)

    async def open_standby(self) -> None:
        """No proxies: the programs find the primary by themselves, by a URL with both hosts."""
        self.pair = await asyncio.to_thread(PostgresPair)
        self.database = database = PostgresDatabase(self.pair, name="PostgreSQL with a standby")
        await database.create()
        self.clocks = [Clock(self.folder / f"clock-{number}") for number in range(self._count)]
        self._start_programs([database.url] * (self._count + 1), clocks=self.clocks)

    async def open_sqlite(self) -> None:
        self.store_disk = Disk(self.folder / "store", size_bytes=STORE_DISK_BYTES)
        clock = Clock(self.folder / "clock")
        self.database = database = SQLiteDatabase(
            self.store_disk.folder / "jobs.db", now=lambda: time.time() + clock.offset_seconds
        )
        await database.create()
        self.clocks = [clock]
        self._start_programs([database.url] * (self._count + 1), clocks=[clock] * (self._count + 1))

    def _start_programs(self, urls: list[str], *, clocks: list[Clock]) -> None:
        *worker_urls, submitter_url = urls
        for number, url in enumerate(worker_urls):
            self.workers.append(
                Program(
                    f"worker-{number}",
                    lambda _, number=number: self._command(number),  # type: ignore[misc]
                    environment=self._environment(url, clocks[number]),
                    log=self.folder / f"worker-{number}.log",
                    may_be_refused=lambda: self.is_refusing,
                )
            )
        self.submitter = Program(
            "submitter",
            self._submitter_command,
            environment=self._environment(submitter_url, clocks[-1] if len(clocks) > self._count else None),
            log=self.folder / "submitter.log",
            may_be_refused=lambda: True,
        )
        for program in (*self.workers, self.submitter):
            program.start()

    def _command(self, number: int) -> list[str]:
        name = f"worker-{number}"
        if number in SECOND_APP:
            command = [sys.executable, "-m", "holdfast", "worker", "chaos.second:app", "--name", name, "--grace", "5"]
            return [*command, "--concurrency", str(CONCURRENCY), "--queues", SECOND_QUEUES]
        if number == PAIR and self._count > PAIR:
            limits = f"process={PROCESS_SLOTS}"
            return [sys.executable, "-m", "chaos.pair", name, str(CONCURRENCY // 2), QUEUES, limits]
        return self.worker_command(name)

    def worker_command(self, name: str) -> list[str]:
        command = [sys.executable, "-m", "holdfast", "worker", "chaos.app:app", "--name", name, "--grace", "5"]
        return [*command, "--concurrency", str(CONCURRENCY), "--queues", QUEUES, "--limit", f"process={PROCESS_SLOTS}"]

    @property
    def services(self) -> dict[str, Service]:
        """What the workers do, by name."""
        return {f"worker-{number}": self._service(number) for number in range(self._count)}

    def _service(self, number: int) -> Service:
        if number in SECOND_APP:
            return Service(types=SECOND_TYPES, slots=CONCURRENCY)
        slots = CONCURRENCY // 2 if number == PAIR else CONCURRENCY
        return Service(types=FIRST_TYPES, slots=slots, limits={"process": PROCESS_SLOTS})

    def _submitter_command(self, starts: int) -> list[str]:
        log = self.folder / f"submits-{starts}"
        return [sys.executable, "-m", "chaos.submitter", str(log), f"{self.seed}-{starts}", self.load.encode()]

    def _environment(self, url: str, clock: Clock | None) -> dict[str, str]:
        environment = {
            URL_VARIABLE: url,
            LOGS_VARIABLE: str(self.log_disk.folder / "jobs"),
            ledger.LEDGER_VARIABLE: str(self.folder / "ledger"),
            "PYTHONUNBUFFERED": "1",
        }
        if clock is not None:
            environment[CLOCK_VARIABLE] = str(clock.path)
        return environment | dict(self._breaks)

    def environment_of_a_worker(self) -> dict[str, str]:
        """For one more: straight to the database."""
        return {**os.environ, **self._environment(self.database.url, None)}

    def environment_of_a_reader(self) -> dict[str, str]:
        """With the clock of those who write: on SQLite that is the store's."""
        is_shared = isinstance(self.database, SQLiteDatabase)
        return self._environment(self.database.url, self.clocks[0] if is_shared else None)

    async def close(self) -> None:
        programs = [*self.workers, *([self.submitter] if hasattr(self, "submitter") else [])]
        for program in programs:
            program.kill()
        for program in programs:
            await program.wait_ended()
        for link in self.links:
            await link.close()
        if self.snapshot is not None:
            await self.snapshot.release()
        for server in (self.server, self.pair):
            if server is not None:
                await asyncio.to_thread(server.close)
        if self.server_clock is not None:
            self.server_clock.close()
        for disk in (self.log_disk, self.store_disk):
            if disk is not None:
                disk.close()

    # watching

    async def watch(self) -> None:
        """Keeps ``accepted`` up to date, as far as the database can be asked."""
        while not self.has_enough:
            with contextlib.suppress(Away):
                self.accepted = await asyncio.to_thread(self.database.accepted)
            await asyncio.sleep(WATCH_SECONDS)

    def note_enough(self) -> None:
        """Whoever submits, now or after the next kill, sees the file."""
        self.has_enough = True
        (self.folder / ENOUGH).touch()

    async def count_held(self) -> int:
        """Leases that are held now; 0 where nobody can say."""
        try:
            return await asyncio.to_thread(self.database.held)
        except Away:
            return 0

    @property
    def pids(self) -> list[int]:
        return [pid for worker in self.workers if (pid := worker.pid) is not None]

    def busy_processes(self) -> set[int]:
        """Those whose latest word is that a handler has started."""
        latest = {entry.process: entry.event for entry in ledger.read_latest(self.folder / "ledger")}
        return {process for process, event in latest.items() if event in ("start", "alive")}

    async def drained(self, *, timeout_seconds: float) -> bool:
        """Until every job has ended."""

        def is_drained() -> bool:
            try:
                return self.database.open_jobs() == 0
            except Away:
                return False

        return await asyncio.to_thread(wait_until, is_drained, timeout_seconds=timeout_seconds)

    async def heal(self) -> None:
        """What faults have left behind on purpose, before what is left is drained."""
        if self.server_clock is not None:
            # What was to run a moment later, while the clock was ahead, is due only when it is ahead again.
            self.excuses.note_outage()
            now = time.monotonic()
            self.troubles.append(Trouble(fault="server-clock", began_at=now, ended_at=now, is_upset=True))
            self.server_clock.set(scale.SERVER_CLOCK_SECONDS + HEALED_CLOCK_SECONDS)

    async def clean_up(self) -> None:
        """When all has ended: the clock is right again, and what the pinned snapshot has kept may go."""
        if self.server_clock is not None:
            self.server_clock.set(0)
        if self.snapshot is not None:
            await self.snapshot.release()
        await asyncio.to_thread(self.database.clean_up)

    def history(self, *, overdue: Sequence[Overdue] = (), examination: Sequence[str] = ()) -> History:
        answers = read_answers(sorted(self.folder.glob("submits-*")))
        return History(
            groups=answers.groups,
            keyed=answers.keyed,
            cancels=answers.cancels,
            ledger=list(ledger.read(self.folder / "ledger")),
            stored=self.database.read(),
            troubles=self.troubles,
            failovers=self.failovers,
            overdue=overdue,
            examination=examination,
        )


@asynccontextmanager
async def opened(
    store: str, *, seed: str, load: Load, workers: int = WORKERS, breaks: Mapping[str, str] = NOTHING
) -> AsyncIterator[World]:
    folder = Path(tempfile.mkdtemp(prefix="holdfast-chaos-"))
    world = World(folder, seed=seed, load=load, workers=workers, breaks=breaks)
    watch: asyncio.Task[None] | None = None
    try:
        openers = {"postgres": world.open_postgres, "sqlite": world.open_sqlite, "standby": world.open_standby}
        await openers[store]()
        watch = asyncio.create_task(world.watch())
        yield world
    finally:
        if watch is not None:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
        await world.close()
        if "CHAOS_KEEP" not in os.environ:
            with contextlib.suppress(OSError):
                shutil.rmtree(folder)


def _started(clock: ServerClock | None) -> PostgresServer:
    environment = clock.environment if clock is not None else {}
    server = PostgresServer(settings={"autovacuum": "off"}, environment=environment)
    server.start()
    return server


def _through(url: str, link: Link) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{link.port}"))
