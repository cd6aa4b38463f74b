"""The two stores as the run sees them from outside: made, watched, migrated under load, and read at the end.

Everything here goes to the database by itself, around the store's code and around the proxies.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import UUID

import psycopg

from chaos import scale
from chaos.history import Stored
from chaos.overdue import Look, Seen, Standing
from chaos.reading import put_right, seconds_of, stored_of, uuid_of
from holdfast.stores.postgres import migrate
from holdfast.stores.sqlite import SQLiteStore
from tests.servers import PostgresPair, PostgresServer

SQL: Final = Path(__file__).parent / "sql"
PLACES: Final = ("ready", "waiting", "running", "ended")
OPEN_PLACES: Final = ("ready", "waiting", "running", "mark")
"""What is empty when everything has ended."""
GROWING: Final = ("job", "ready", "running", "ended")
"""The tables that the next version of the schema adds a column to."""
HOLDERS: Final = "SELECT w.name, count(*) FROM {0}running r JOIN {0}worker w ON w.id = r.owner GROUP BY w.name"
HELD: Final = (
    "SELECT j.id FROM {0}running r JOIN {0}worker w ON w.id = r.owner JOIN {0}job j ON j.seq = r.job WHERE w.name = {1}"
)
NEWEST: Final = "SELECT j.id FROM {0}{1} r JOIN {0}job j ON j.seq = r.job ORDER BY {2} DESC LIMIT {3}"
CLAIMS: Final = (
    "SELECT j.queue, j.type, count(*), max(a.number) FROM {0} a JOIN {1}job j ON j.seq = a.job "
    "WHERE a.event = 'born' AND a.number > {2} GROUP BY j.queue, j.type"
)
VERSION: Final = "holdfast.schema_version"
WORKERS: Final = "SELECT id, name, {0}, is_lost FROM {1}worker"
ORDERS: Final = {"running": "r.started_at", "ready": "r.place"}
WATCH_POSTGRES: Final = (SQL / "watch_postgres.sql").read_text(encoding="utf-8")
WATCH_SQLITE: Final = (SQL / "watch_sqlite.sql").read_text(encoding="utf-8")
CALLERS: Final = "chaos-caller"
"""The name of connections that are not ended with all the others: somebody else's own transactions."""
NEXT_VERSION: Final = "9999"
WATCH_SECONDS: Final = 2


class Away(Exception):
    """The database cannot be asked just now."""


class Database(Protocol):
    name: str
    url: str

    async def create(self) -> None: ...

    def held(self) -> int:
        """Leases that are held now; Away where nobody can say."""
        ...

    def holders(self) -> dict[str, int]:
        """How many leases each worker holds, by its name."""
        ...

    def held_by(self, worker: str) -> list[UUID]:
        """The jobs that workers of this name have leases of."""
        ...

    def newest(self, place: str, count: int) -> list[UUID]:
        """The jobs that came last into "running" or "ready"."""
        ...

    def look(self) -> Look:
        """Every job that has not ended, as the watch wants it."""
        ...

    def open_jobs(self) -> int:
        """Jobs that have not ended."""
        ...

    def clean_up(self) -> None:
        """After everything was healed: what somebody's old snapshot has kept may go."""
        ...

    def accepted(self) -> int: ...

    def grow(self, *, is_compatible: bool) -> None:
        """Migrate to the version after this program's: more columns, and a new number."""
        ...

    def shrink(self) -> None: ...

    def read(self) -> Stored: ...


class PostgresDatabase:
    def __init__(self, server: PostgresServer | PostgresPair, *, name: str = "PostgreSQL") -> None:
        self.name = name
        self.database = server.create_database()
        self.url = server.url(self.database)
        self._version = self._compatible_since = ""
        self._about = time.time()
        self._seen_claims = 0

    async def create(self) -> None:
        await migrate.upgrade(self.url)
        await asyncio.to_thread(self._prepare)

    def _prepare(self) -> None:
        self._execute((SQL / "audit_postgres.sql").read_text(encoding="utf-8"))
        with self._connect() as connection:
            ((self._version, self._compatible_since),) = _rows(
                connection, f"SELECT version_num, compatible_since FROM {VERSION}"
            )

    @contextmanager
    def _connect(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        try:
            with psycopg.connect(self.url, autocommit=True, connect_timeout=WATCH_SECONDS) as connection:
                yield connection
        except psycopg.OperationalError as error:
            raise Away(str(error)) from error

    def _execute(self, text: str) -> None:
        with self._connect() as connection:
            connection.execute(text.encode())

    def _number(self, text: str) -> int:
        with self._connect() as connection:
            row = connection.execute(text.encode()).fetchone()
            return int(row[0]) if row else 0

    def held(self) -> int:
        return self._number("SELECT count(*) FROM holdfast.running")

    def holders(self) -> dict[str, int]:
        with self._connect() as connection:
            return dict(_rows(connection, HOLDERS.format("holdfast.")))

    def held_by(self, worker: str) -> list[UUID]:
        with self._connect() as connection:
            return [job_id for (job_id,) in _rows(connection, HELD.format("holdfast.", f"'{worker}'"))]

    def newest(self, place: str, count: int) -> list[UUID]:
        text = NEWEST.format("holdfast.", place, ORDERS[place], count)
        with self._connect() as connection:
            return [job_id for (job_id,) in _rows(connection, text)]

    def look(self) -> Look:
        with self._connect() as connection:
            connection.execute(f"SET statement_timeout = {WATCH_SECONDS * 1000}".encode())
            # Of one moment: who is claimed between two reads would be a claim, but would not have left the line.
            connection.execute(b"BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            claims = _rows(connection, CLAIMS.format("chaos.audit", "holdfast.", self._seen_claims))
            ((now,),) = _rows(connection, "SELECT extract(epoch FROM clock_timestamp())::float8")
            jobs = _rows(connection, WATCH_POSTGRES)
            workers = _rows(connection, WORKERS.format("extract(epoch FROM seen_at)::float8", "holdfast."))
        self._seen_claims = max((number for *_, number in claims), default=self._seen_claims)
        return _look(now, claims, jobs, workers)

    def open_jobs(self) -> int:
        parts = " + ".join(f"(SELECT count(*) FROM holdfast.{place})" for place in OPEN_PLACES)
        return self._number(f"SELECT {parts}")

    def accepted(self) -> int:
        return self._number("SELECT count(*) FROM holdfast.job")

    def terminate_connections(self) -> int:
        """Of everybody but us; returns how many."""
        return self._number(
            "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' "
            f"AND application_name <> '{CALLERS}'"
        )

    def grow(self, *, is_compatible: bool) -> None:
        columns = [
            f"ALTER TABLE holdfast.{table} ADD COLUMN IF NOT EXISTS next_version int DEFAULT 1" for table in GROWING
        ]
        since = self._version if is_compatible else NEXT_VERSION
        self._migrate([*columns, f"UPDATE {VERSION} SET version_num = '{NEXT_VERSION}', compatible_since = '{since}'"])

    def shrink(self) -> None:
        columns = [f"ALTER TABLE holdfast.{table} DROP COLUMN IF EXISTS next_version" for table in GROWING]
        known = f"version_num = '{self._version}', compatible_since = '{self._compatible_since}'"
        self._migrate([*columns, f"UPDATE {VERSION} SET {known}"])

    def _migrate(self, statements: Sequence[str]) -> None:
        """As ``migrate.upgrade`` does it, one after the other; Away where a table is waited for too long."""
        for statement in statements:
            self._execute(f"BEGIN; SET LOCAL lock_timeout = '{migrate.LOCK_SECONDS}s'; {statement}; COMMIT")

    def read(self) -> Stored:
        with self._connect() as connection:
            return stored_of(
                ids=dict(_rows(connection, "SELECT seq, id FROM holdfast.job")),
                budgets=dict(_rows(connection, "SELECT seq, max_attempts FROM holdfast.job")),
                places={place: _rows(connection, f"SELECT job FROM holdfast.{place}") for place in PLACES},
                ended=[
                    (job, state, attempt, token, result, self._put_right(started_at), self._put_right(completed_at))
                    for job, state, attempt, token, result, started_at, completed_at in _rows(
                        connection,
                        "SELECT job, state, attempt, last_token, convert_from(result, 'UTF8'), "
                        "extract(epoch FROM started_at), extract(epoch FROM completed_at) FROM holdfast.ended",
                    )
                ],
                attempts=[
                    (job, number, token, self._put_right(started_at), self._put_right(ended_at), failure, by_holder)
                    for job, number, token, started_at, ended_at, failure, by_holder in _rows(
                        connection,
                        "SELECT job, number, token, extract(epoch FROM started_at), extract(epoch FROM ended_at), "
                        "failure, is_ended_by_holder FROM holdfast.attempt",
                    )
                ],
                audit=[
                    (*row, _monotonic(self._put_right(at)))
                    for *row, at in _rows(
                        connection,
                        "SELECT number, event, job, token, version, said, extract(epoch FROM at)::float8 "
                        "FROM chaos.audit",
                    )
                ],
                edges=_rows(connection, "SELECT child, parent FROM holdfast.edge"),
            )

    def _put_right(self, seconds: float | None) -> float | None:
        return put_right(seconds, about=self._about, jump_seconds=scale.SERVER_CLOCK_SECONDS)

    def clean_up(self) -> None:
        self._execute("VACUUM ANALYZE")


def _rows(connection: psycopg.Connection[tuple[Any, ...]], text: str) -> list[tuple[Any, ...]]:
    return connection.execute(text.encode()).fetchall()


class SQLiteDatabase:
    name = "SQLite"

    def __init__(self, path: Path, *, now: Callable[[], float] = time.time) -> None:
        """``now``: the clock of those who write there."""
        self.path = path
        self.url = f"sqlite:///{path}"
        self.now = now
        self._version = self._compatible_since = 0
        self._seen_claims = 0

    async def create(self) -> None:
        store = SQLiteStore(self.path)
        await store.open()
        await store.close()
        with self._connect() as connection:
            connection.executescript((SQL / "audit_sqlite.sql").read_text(encoding="utf-8"))
            known = connection.execute("SELECT version, compatible_since FROM holdfast_meta")
            self._version, self._compatible_since = known.fetchone()

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=WATCH_SECONDS, isolation_level=None)) as connection:
                yield connection
        except sqlite3.OperationalError as error:
            raise Away(str(error)) from error

    def _number(self, text: str) -> int:
        with self._connect() as connection:
            return int(connection.execute(text).fetchone()[0])

    def held(self) -> int:
        return self._number("SELECT count(*) FROM holdfast_running")

    def holders(self) -> dict[str, int]:
        with self._connect() as connection:
            return dict(connection.execute(HOLDERS.format("holdfast_")).fetchall())

    def held_by(self, worker: str) -> list[UUID]:
        with self._connect() as connection:
            rows = connection.execute(HELD.format("holdfast_", f"'{worker}'")).fetchall()
        return [UUID(bytes=job_id) for (job_id,) in rows]

    def newest(self, place: str, count: int) -> list[UUID]:
        with self._connect() as connection:
            rows = connection.execute(NEWEST.format("holdfast_", place, ORDERS[place], count)).fetchall()
        return [UUID(bytes=job_id) for (job_id,) in rows]

    def look(self) -> Look:
        with self._connect() as connection:
            connection.execute("BEGIN")
            claims = connection.execute(CLAIMS.format("chaos_audit", "holdfast_", self._seen_claims)).fetchall()
            jobs = connection.execute(WATCH_SQLITE).fetchall()
            now = self.now()
            workers = connection.execute(WORKERS.format("seen_at / 1e6", "holdfast_")).fetchall()
            connection.execute("ROLLBACK")
        self._seen_claims = max((number for *_, number in claims), default=self._seen_claims)
        return _look(
            now,
            claims,
            [(uuid_of(row[0]), *row[1:7], uuid_of(row[7]), row[8]) for row in jobs],
            [(uuid_of(row[0]), *row[1:]) for row in workers],
        )

    def clean_up(self) -> None:
        """There is nothing to clean up here: the file keeps no rows for old snapshots."""

    def open_jobs(self) -> int:
        return self._number("SELECT " + " + ".join(f"(SELECT count(*) FROM holdfast_{place})" for place in OPEN_PLACES))

    def accepted(self) -> int:
        return self._number("SELECT count(*) FROM holdfast_job")

    def grow(self, *, is_compatible: bool) -> None:
        columns = [f"ALTER TABLE holdfast_{table} ADD COLUMN next_version INTEGER DEFAULT 1" for table in GROWING]
        since = self._version if is_compatible else int(NEXT_VERSION)
        self._migrate([*columns, f"UPDATE holdfast_meta SET version = {NEXT_VERSION}, compatible_since = {since}"])

    def shrink(self) -> None:
        columns = [f"ALTER TABLE holdfast_{table} DROP COLUMN next_version" for table in GROWING]
        known = f"version = {self._version}, compatible_since = {self._compatible_since}"
        self._migrate([*columns, f"UPDATE holdfast_meta SET {known}"])

    def _migrate(self, statements: Sequence[str]) -> None:
        with self._connect() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                for statement in statements:
                    connection.execute(statement)
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def read(self) -> Stored:
        with self._connect() as connection:

            def rows(text: str) -> list[tuple[Any, ...]]:
                return connection.execute(text).fetchall()

            return stored_of(
                ids={seq: UUID(bytes=job_id) for seq, job_id in rows("SELECT seq, id FROM holdfast_job")},
                budgets=dict(rows("SELECT seq, max_attempts FROM holdfast_job")),
                places={place: rows(f"SELECT job FROM holdfast_{place}") for place in PLACES},
                ended=[
                    (job, state, attempt, uuid_of(token), result, seconds_of(started_at), seconds_of(completed_at))
                    for job, state, attempt, token, result, started_at, completed_at in rows(
                        "SELECT job, state, attempt, last_token, CAST(result AS TEXT), started_at, completed_at "
                        "FROM holdfast_ended"
                    )
                ],
                attempts=[
                    (job, number, uuid_of(token), seconds_of(started_at), seconds_of(ended_at), failure, by_holder)
                    for job, number, token, started_at, ended_at, failure, by_holder in rows(
                        "SELECT job, number, token, started_at, ended_at, failure, is_ended_by_holder "
                        "FROM holdfast_attempt"
                    )
                ],
                audit=[
                    (number, event, job, uuid_of(token), version, said, _monotonic(at))
                    for number, event, job, token, version, said, at in rows(
                        "SELECT number, event, job, token, version, said, at FROM chaos_audit"
                    )
                ],
                edges=rows("SELECT child, parent FROM holdfast_edge"),
            )


def _monotonic(seconds: float | None) -> float:
    """A time of the machine's own clock, which does not jump while this runs."""
    assert seconds is not None
    return seconds - time.time() + time.monotonic()


def _look(
    now: float,
    claims: Sequence[tuple[Any, ...]],
    jobs: Sequence[tuple[Any, ...]],
    workers: Sequence[tuple[Any, ...]],
) -> Look:
    return Look(
        at=time.monotonic(),
        now=now,
        jobs=[
            Standing(
                job_id=job_id,
                type=name,
                queue=queue,
                state=state,
                version=version,
                place=place,
                at=at,
                owner=owner,
                is_met=bool(is_met),
            )
            for job_id, name, queue, state, version, place, at, owner, is_met in jobs
        ],
        workers=[
            Seen(id=worker_id, name=name, seen_at=seen_at, is_lost=bool(is_lost))
            for worker_id, name, seen_at, is_lost in workers
        ],
        claims={(queue, name): count for queue, name, count, _ in claims},
    )
