"""One system, measured once: a place of its own, a producer, workers, the ledger. What is done there is a measure's."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.peers.catalogue import System, Variant
from benchmarks.peers.environments import Environment
from benchmarks.peers.ledger import Ledger
from benchmarks.peers.places import Place, Stores
from benchmarks.peers.programs import PeerFailed, Producer, WorkerProgram, producer_command, variables, worker_command

POLL_SECONDS: Final = 0.005
START_TIMEOUT_SECONDS: Final = 30.0
WARM_UP_JOBS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A variant that can be run here."""

    system: System
    variant: Variant
    environment: Environment

    @property
    def name(self) -> str:
        return self.variant.name


@dataclass(slots=True, kw_only=True)
class Visit:
    peer: Peer
    place: Place
    producer: Producer
    ledger: Ledger
    _folder: Path
    _store_processes: list[int]
    workers: list[WorkerProgram] = field(default_factory=list)

    def start_workers(self, count: int = 1) -> None:
        command = worker_command(
            self.peer.system, self.peer.variant, self.peer.environment, url=self.place.url, queue=self.place.queue
        )
        for _ in range(count):
            given = _given(self.place, self.ledger)
            log = self._folder / f"worker-{len(self.workers)}.log"
            environment = variables(self.peer.variant, self.peer.environment, given)
            self.workers.append(WorkerProgram(command, variables=environment, log=log))

    @property
    def processes(self) -> list[int]:
        """The roots of all that works on the jobs: workers and store."""
        return [*self.worker_processes, *self._store_processes]

    @property
    def worker_processes(self) -> list[int]:
        return [worker.pid for worker in self.workers]

    @property
    def store_processes(self) -> list[int]:
        return self._store_processes

    def wait_for(self, count: int, *, timeout_seconds: float) -> float:
        """Until so many handlers have begun; the time."""
        return self.wait_until(
            lambda: self.ledger.count >= count,
            timeout_seconds=timeout_seconds,
            what=lambda: f"{self.ledger.count} of {count} jobs began",
        )

    def wait_until(self, condition: Callable[[], bool], *, timeout_seconds: float, what: Callable[[], str]) -> float:
        deadline = time.monotonic() + timeout_seconds
        while not condition():
            for worker in self.workers:
                worker.check()
            if time.monotonic() > deadline:
                raise PeerFailed(f"after {timeout_seconds:.0f} s only {what()}")
            time.sleep(POLL_SECONDS)
        return time.monotonic()

    def warm_up(self) -> int:
        """The worker is up and has run jobs; how many."""
        self.producer.tell("pace", jobs=WARM_UP_JOBS, interval=POLL_SECONDS)
        self.wait_for(WARM_UP_JOBS, timeout_seconds=START_TIMEOUT_SECONDS)
        return WARM_UP_JOBS

    def finish_workers(self) -> None:
        """In good order, for another worker to take over."""
        while self.workers:
            self.workers[-1].finish()
            self.workers.pop()

    def stop_workers(self) -> None:
        for worker in self.workers:
            worker.stop()


def _given(place: Place, ledger: Ledger) -> dict[str, str]:
    return {"BENCH_URL": place.url, "BENCH_QUEUE": place.queue, "BENCH_LEDGER": str(ledger.path)}


@contextmanager
def visit(peer: Peer, stores: Stores, *, produce: str | None = None) -> Iterator[Visit]:
    """``produce``: the module of another producer than the system's own."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-visit-"))
    folder.chmod(0o777)
    command = producer_command(peer.system, peer.environment, module=produce)

    def setup(url: str) -> None:
        environment = variables(peer.variant, peer.environment, {"BENCH_URL": url})
        with Producer(command, variables=environment, log=folder / "setup.log") as producer:
            producer.tell("setup")

    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        place = stores.place(peer.variant, setup)
        stack.callback(place.drop)
        ledger = Ledger(folder / "ledger")
        environment = variables(peer.variant, peer.environment, _given(place, ledger))
        producer = stack.enter_context(Producer(command, variables=environment, log=folder / "producer.log"))
        producer.tell("open")
        here = Visit(
            peer=peer,
            place=place,
            producer=producer,
            ledger=ledger,
            _folder=folder,
            _store_processes=stores.processes(peer.variant.store),
        )
        stack.callback(here.stop_workers)
        yield here
