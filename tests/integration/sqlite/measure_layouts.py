"""One table, or a table for each state? The figures in the store's README.

Raw sqlite3 in one thread, durable (WAL, synchronous=FULL), batches of 1000 for submit and of 200 for claim and settle.
The layouts take turns, so that a noisy machine disturbs both alike; the medians of the rounds are printed.

    python -m tests.integration.sqlite.measure_layouts [jobs a round] [rounds] [jobs waiting behind]
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from holdfast.stores.sqlite.claim import INLINE_PAYLOAD_BYTES, SEQ
from holdfast.stores.sqlite.connection import connect
from holdfast.stores.sqlite.migrate import migrate
from holdfast.stores.sqlite.rows import json_array
from holdfast.stores.sqlite.statements import SQL, execute

SUBMIT_BATCH: Final = 1000
DRAIN_BATCH: Final = 200
PAYLOAD: Final = b'{"text":"' + b"x" * 90 + b'"}'
RESULT: Final = b'"done"'
LIFETIME: Final = 604_800_000_000
VISIBILITY_SECONDS: Final = 300
OWNER: Final = uuid4().bytes

ONE_TABLE: Final = """
CREATE TABLE job (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id BLOB NOT NULL UNIQUE, type TEXT NOT NULL, queue TEXT NOT NULL,
    priority INTEGER NOT NULL, depth INTEGER NOT NULL, created_at INTEGER NOT NULL, run_at INTEGER,
    max_attempts INTEGER NOT NULL, visibility_seconds REAL NOT NULL, lifetime_seconds REAL NOT NULL,
    spawned_by INTEGER, is_json INTEGER NOT NULL, options TEXT, state TEXT NOT NULL, place INTEGER,
    version INTEGER NOT NULL DEFAULT 0, attempt INTEGER NOT NULL DEFAULT 0, replays INTEGER NOT NULL DEFAULT 0,
    is_fragile INTEGER NOT NULL DEFAULT 0, has_dependents INTEGER NOT NULL DEFAULT 0, due_at INTEGER,
    scheduled_at INTEGER, started_at INTEGER, completed_at INTEGER, expires_at INTEGER, lifetime_ends_at INTEGER,
    token BLOB, owner BLOB, last_token BLOB, cancel_requested INTEGER NOT NULL DEFAULT 0, ended_by INTEGER,
    failure TEXT, result BLOB, payload BLOB NOT NULL
) STRICT;
CREATE INDEX job_claim ON job (queue, priority, place) WHERE state = 'SCHEDULED';
CREATE INDEX job_lifetime ON job (lifetime_ends_at) WHERE state IN ('PENDING', 'DELAYED', 'SCHEDULED', 'RETRYING');
CREATE INDEX job_owner ON job (owner, expires_at) WHERE state = 'RUNNING';
CREATE INDEX job_completed ON job (completed_at) WHERE completed_at IS NOT NULL;
CREATE INDEX job_seldom ON job (state, seq) WHERE state IN ('FAILED', 'DEAD_LETTER', 'CANCELLED')
"""


class Layout:
    def __init__(self, path: Path) -> None:
        self.connection = connect(path, synchronous="FULL")
        self.cursor = self.connection.cursor()
        self.make(path)

    def make(self, path: Path) -> None:
        raise NotImplementedError

    def insert(self, rows: Sequence[tuple[Any, ...]], now: int) -> None:
        raise NotImplementedError

    def claim(self, now: int) -> list[tuple[int, bytes]]:
        raise NotImplementedError

    def settle(self, leases: Sequence[tuple[int, bytes]], now: int) -> None:
        raise NotImplementedError

    def commit(self, work: Callable[[int], Any]) -> Any:
        self.cursor.execute("BEGIN IMMEDIATE")
        answer = work(time.time_ns() // 1000)
        self.cursor.execute("COMMIT")
        return answer

    def submit(self, jobs: int) -> None:
        for _ in range(0, jobs, SUBMIT_BATCH):
            self.commit(lambda now: self.insert([_facts(now) for _ in range(min(jobs, SUBMIT_BATCH))], now))

    def drain(self, jobs: int) -> None:
        for _ in range(jobs // DRAIN_BATCH):
            leases = self.commit(self.claim)
            assert len(leases) == DRAIN_BATCH
            self.commit(partial(self.settle, leases))


def _facts(now: int) -> tuple[Any, ...]:
    return (uuid4().bytes, "work", "default", 2, 0, now, None, 3, 300.0, 604_800.0, None, 1, None, PAYLOAD)


class OneTable(Layout):
    def make(self, path: Path) -> None:
        for statement in ONE_TABLE.split(";"):
            self.cursor.execute(statement)

    def insert(self, rows: Sequence[tuple[Any, ...]], now: int) -> None:
        self.cursor.executemany(
            "INSERT INTO job (id, type, queue, priority, depth, created_at, run_at, max_attempts, visibility_seconds, "
            "lifetime_seconds, spawned_by, is_json, options, payload, state, place, scheduled_at, lifetime_ends_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'SCHEDULED', ?, ?, ?)",
            [(*row, now, now, now + LIFETIME) for row in rows],
        )

    def claim(self, now: int) -> list[tuple[int, bytes]]:
        rows = self.cursor.execute(
            "SELECT seq, attempt, version, id, type, created_at, max_attempts, visibility_seconds, is_json, options, "
            "last_token, payload FROM job WHERE state = 'SCHEDULED' AND queue = 'default' AND lifetime_ends_at > ? "
            "ORDER BY priority, place LIMIT ?",
            (now, DRAIN_BATCH),
        ).fetchall()
        leases = [(row[0], uuid4().bytes) for row in rows]
        self.cursor.executemany(
            "UPDATE job SET state = 'RUNNING', token = ?, owner = ?, attempt = attempt + 1, version = version + 1, "
            "started_at = ?, expires_at = ? WHERE seq = ?",
            [(token, OWNER, now, now + 300_000_000, seq) for seq, token in leases],
        )
        return leases

    def settle(self, leases: Sequence[tuple[int, bytes]], now: int) -> None:
        self.cursor.executemany(
            "UPDATE job SET state = 'COMPLETED', last_token = token, token = NULL, completed_at = ?, result = ? "
            "WHERE seq = ? AND token = ? AND state = 'RUNNING'",
            [(now, RESULT, seq, token) for seq, token in leases],
        )


class TableAState(Layout):
    """The store's own tables and statements."""

    def make(self, path: Path) -> None:
        migrate(self.connection, path)

    def insert(self, rows: Sequence[tuple[Any, ...]], now: int) -> None:
        ((last,),) = execute(self.cursor, "write.reserve", len(rows)).fetchall()
        first = last - len(rows) + 1
        self.cursor.executemany(SQL["submit.job"], [(seq, *row) for seq, row in enumerate(rows, start=first)])
        execute(self.cursor, "submit.ready", first, last)

    def claim(self, now: int) -> list[tuple[int, bytes]]:
        ((facts, _, _),) = execute(self.cursor, "claim.find", "default", now, DRAIN_BATCH, None, INLINE_PAYLOAD_BYTES)
        leases = [(job[SEQ], uuid4().bytes) for job in json.loads(facts)]
        seqs = json_array([seq for seq, _ in leases])
        tokens = b"".join([token for _, token in leases])
        execute(
            self.cursor, "claim.lease", seqs, tokens, now, OWNER, VISIBILITY_SECONDS, VISIBILITY_SECONDS * 1_000_000
        )
        execute(self.cursor, "claim.take", seqs)
        return leases

    def settle(self, leases: Sequence[tuple[int, bytes]], now: int) -> None:
        seqs = json_array([seq for seq, _ in leases])
        ((_, held, _),) = execute(self.cursor, "settle.count", seqs, b"".join([token for _, token in leases]))
        assert held == len(leases)
        execute(self.cursor, "settle.end", seqs, now, RESULT)
        execute(self.cursor, "settle.leave", seqs)


def measure(jobs: int, rounds: int, backlog: int) -> dict[tuple[str, str], list[float]]:
    figures: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        layouts = {kind.__name__: kind(Path(folder) / kind.__name__) for kind in (OneTable, TableAState)}
        for layout in layouts.values():
            layout.submit(backlog)
        for _ in range(rounds):
            for name, layout in layouts.items():
                for what, work in (("submit", layout.submit), ("claim + settle", layout.drain)):
                    started = time.perf_counter()
                    work(jobs)
                    elapsed = time.perf_counter() - started
                    figures.setdefault((what, name), []).append(jobs / elapsed)
                figures.setdefault(("single submit", name), []).append(_singles(layout))
    return figures


def _singles(layout: Layout, count: int = DRAIN_BATCH) -> float:
    started = time.perf_counter()
    for _ in range(count):
        layout.submit(1)
    elapsed = time.perf_counter() - started
    layout.drain(count)
    return count / elapsed


def main(jobs: int = 10_000, rounds: int = 7, backlog: int = 0) -> None:
    for (what, name), rates in sorted(measure(jobs, rounds, backlog).items()):
        middle = statistics.quantiles(rates, n=4)
        sys.stdout.write(f"{what:15} {name:12} {middle[1]:8.0f} jobs/s  ({middle[0]:.0f} … {middle[2]:.0f})\n")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
