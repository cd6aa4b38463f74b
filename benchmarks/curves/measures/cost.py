"""What a job costs, and where: CPU of the client or worker, CPU of the server, transactions, log.

On a busy machine these are the figures to trust: they move far less than any rate. The price of a commit that waits for
the disk, and of one that does not, stands beside them: what batches save.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg

from benchmarks.curves.session import Point, Session
from benchmarks.peers.measures.drain import drain_filled
from benchmarks.peers.samples import Sample
from benchmarks.peers.usage import cpu_seconds
from benchmarks.peers.visits import Visit

COUNTERS: Final = b"""
SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, (pg_current_wal_insert_lsn() - '0/0')::bigint
"""
"""Transactions that wrote something, and bytes of the log: both exact, and at once."""
EMIT: Final = b"SELECT pg_logical_emit_message(true, 'benchmark', 'commit')"
SINGLE: Final = "single submits, one at a time"
TOGETHER: Final = "single submits, ten at a time"
BULK: Final = "submits by submit_many, 1000 at a time"
DRAIN: Final = "claim, run and settle (a worker)"
COMMIT: Final = "a commit by itself"
COMMIT_ASIDE: Final = "a commit that does not wait for the disk"


def measure_cost(session: Session) -> None:
    kinds: dict[str, Callable[[Visit], dict[str, float | None]]] = {
        SINGLE: lambda visit: _submits(session, visit, "singles", producers=1),
        TOGETHER: lambda visit: _submits(session, visit, "singles", producers=10),
        BULK: lambda visit: _submits(session, visit, "bulk"),
        DRAIN: lambda visit: _drain(session, visit),
        COMMIT: lambda visit: _commits(session, visit, is_synchronous=True),
        COMMIT_ASIDE: lambda visit: _commits(session, visit, is_synchronous=False),
    }
    points = [Point(series=name, x=number) for number, name in enumerate(kinds)]

    def measure(point: Point) -> Sample:
        with session.visit(point) as visit:
            return Sample(figures=kinds[point.series](visit))

    session.take_turns("cost", points, measure)


@contextmanager
def _counted(visit: Visit) -> Iterator[dict[str, float]]:
    found: dict[str, float] = {}
    with psycopg.connect(visit.place.url, autocommit=True) as connection:
        before = _read(connection)
        server = cpu_seconds(visit.store_processes)
        yield found
        found["server_seconds"] = cpu_seconds(visit.store_processes) - server
        found["transactions"], found["bytes"] = (
            after - start for after, start in zip(_read(connection), before, strict=True)
        )


def _read(connection: psycopg.Connection[Any]) -> tuple[int, int]:
    row = connection.execute(COUNTERS).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def _figures(jobs: int, seconds: float, client_seconds: float, counted: dict[str, float]) -> dict[str, float | None]:
    return {
        "rate": jobs / seconds,
        "client_cpu": client_seconds / jobs * 1e6,
        "server_cpu": counted["server_seconds"] / jobs * 1e6,
        "transactions": counted["transactions"] / jobs * 1000,
        "bytes": counted["bytes"] / jobs,
    }


def _submits(session: Session, visit: Visit, command: str, **given: int) -> dict[str, float | None]:
    seconds = session.sizes.submit_seconds
    visit.producer.tell(command, seconds=seconds / 4, **given)
    with _counted(visit) as counted:
        client = cpu_seconds([visit.producer.pid])
        answer = visit.producer.tell(command, seconds=seconds, **given)
        client = cpu_seconds([visit.producer.pid]) - client
    return _figures(answer["jobs"], answer["seconds"], client, counted)


def _drain(session: Session, visit: Visit) -> dict[str, float | None]:
    jobs = session.sizes.drain_jobs
    visit.producer.tell("fill", jobs=jobs)
    visit.place.settle_down()
    with _counted(visit) as counted:
        sample = drain_filled(visit, jobs=jobs)
    rate, worker = (sample.figures[name] or 0.0 for name in ("rate", "worker_cpu"))
    figures = _figures(jobs, jobs / rate, worker * jobs / 1000, counted)
    # From the first handler on: connecting is not a job's.
    return {**figures, "server_cpu": (sample.figures["store_cpu"] or 0.0) * 1000}


def _commits(session: Session, visit: Visit, *, is_synchronous: bool) -> dict[str, float | None]:
    took: list[float] = []
    with psycopg.connect(visit.place.url, autocommit=True) as connection:
        connection.execute(f"SET synchronous_commit = {'on' if is_synchronous else 'off'}".encode())
        for _ in range(session.sizes.commits):
            before = time.perf_counter()
            connection.execute(EMIT)
            took.append(time.perf_counter() - before)
    return {"rate": 1 / statistics.median(took), "commit_microseconds": statistics.median(took) * 1e6}
