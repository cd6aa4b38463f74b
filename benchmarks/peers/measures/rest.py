"""What workers cost that have nothing to do: statements a minute, and a core's time.

All workers rest at the same time, each at its own place: they do next to nothing, and their processes and databases
are told apart. PostgreSQL is told to log every statement meanwhile.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import psycopg

from benchmarks.peers.places import DatabasePlace
from benchmarks.peers.samples import Sample
from benchmarks.peers.usage import cpu_seconds
from benchmarks.peers.visits import Visit
from tests.servers import PostgresServer

CALM_DOWN_SECONDS: Final = 3.0
LOGGED: Final = ("LOG:  statement:", "LOG:  execute ")


def measure_rest(
    visits: Mapping[str, Visit], server: PostgresServer, *, seconds: float, rounds: int, say: Callable[[int], None]
) -> dict[str, list[Sample]]:
    samples: dict[str, list[Sample]] = {name: [] for name in visits}
    with logged_statements(server):
        time.sleep(CALM_DOWN_SECONDS)
        for number in range(rounds):
            say(number)
            for name, sample in _rest(visits, server, seconds).items():
                samples[name].append(sample)
    return samples


def _rest(visits: Mapping[str, Visit], server: PostgresServer, seconds: float) -> dict[str, Sample]:
    started, logged = time.monotonic(), len(server.log)
    cpu = {name: cpu_seconds(visit.worker_processes) for name, visit in visits.items()}
    time.sleep(seconds)
    used = {name: cpu_seconds(visit.worker_processes) - cpu[name] for name, visit in visits.items()}
    passed, lines = time.monotonic() - started, server.log[logged:].splitlines()
    samples = {}
    for name, visit in visits.items():
        visit.workers[0].check()
        statements = _statements(lines, visit) * 60 / passed if isinstance(visit.place, DatabasePlace) else None
        samples[name] = Sample(figures={"core_percent": used[name] / passed * 100, "statements": statements})
    return samples


def _statements(lines: list[str], visit: Visit) -> int:
    prefix = f"{visit.place.url.rpartition('/')[2]}|"
    return sum(1 for line in lines if line.startswith(prefix) and any(kind in line for kind in LOGGED))


@contextmanager
def logged_statements(server: PostgresServer) -> Iterator[None]:
    """Every line of the log begins with its database."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        for statement in (b"ALTER SYSTEM SET log_statement = 'all'", b"ALTER SYSTEM SET log_line_prefix = '%d|'"):
            connection.execute(statement)
        connection.execute("SELECT pg_reload_conf()")
        try:
            yield
        finally:
            connection.execute("ALTER SYSTEM RESET ALL")
            connection.execute("SELECT pg_reload_conf()")
