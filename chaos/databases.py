"""The two stores as the run sees them from outside: made, watched, migrated under load, and read at the end.

Everything here goes to the database by itself, around the store's code and around the proxies.
"""

import asyncio
import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import UUID

import psycopg

from chaos.history import Audit, Edge, LeaseEvent, SpentAttempt, Stored, StoredJob
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
VERSION: Final = "holdfast.schema_version"
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

    def open_jobs(self) -> int:
        """Jobs that have not ended."""
        ...

    def accepted(self) -> int: ...

    def grow(self) -> None:
        """Migrate to the version after this program's: more columns, and a new number."""
        ...

    def shrink(self) -> None: ...

    def read(self) -> Stored: ...


class PostgresDatabase:
    def __init__(self, server: PostgresServer | PostgresPair, *, name: str = "PostgreSQL") -> None:
        self.name = name
        self.database = server.create_database()
        self.url = server.url(self.database)
        self._version = ""

    async def create(self) -> None:
        await migrate.upgrade(self.url)
        await asyncio.to_thread(self._prepare)

    def _prepare(self) -> None:
        self._execute((SQL / "audit_postgres.sql").read_text(encoding="utf-8"))
        with self._connect() as connection:
            ((self._version,),) = _rows(connection, f"SELECT version_num FROM {VERSION}")

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

    def open_jobs(self) -> int:
        parts = " + ".join(f"(SELECT count(*) FROM holdfast.{place})" for place in OPEN_PLACES)
        return self._number(f"SELECT {parts}")

    def accepted(self) -> int:
        return self._number("SELECT count(*) FROM holdfast.job")

    def terminate_connections(self) -> int:
        """Of everybody but us; returns how many."""
        return self._number(
            "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )

    def grow(self) -> None:
        columns = [f"ALTER TABLE holdfast.{table} ADD COLUMN next_version int DEFAULT 1" for table in GROWING]
        self._migrate([*columns, f"UPDATE {VERSION} SET version_num = '{NEXT_VERSION}'"])

    def shrink(self) -> None:
        columns = [f"ALTER TABLE holdfast.{table} DROP COLUMN IF EXISTS next_version" for table in GROWING]
        self._migrate([*columns, f"UPDATE {VERSION} SET version_num = '{self._version}'"])

    def _migrate(self, statements: Sequence[str]) -> None:
        """As ``migrate.upgrade`` does it, in one transaction; Away where a lock is waited for too long."""
        lock = f"SELECT pg_advisory_xact_lock({migrate.LOCK_NUMBER})"
        self._execute(";".join(("BEGIN", "SET LOCAL lock_timeout = '2s'", lock, *statements, "COMMIT")))

    def read(self) -> Stored:
        with self._connect() as connection:
            return _stored(
                ids=dict(_rows(connection, "SELECT seq, id FROM holdfast.job")),
                budgets=dict(_rows(connection, "SELECT seq, max_attempts FROM holdfast.job")),
                places={place: _rows(connection, f"SELECT job FROM holdfast.{place}") for place in PLACES},
                ended=_rows(
                    connection,
                    "SELECT job, state, attempt, last_token, convert_from(result, 'UTF8'), "
                    "extract(epoch FROM started_at), extract(epoch FROM completed_at) FROM holdfast.ended",
                ),
                attempts=_rows(
                    connection,
                    "SELECT job, number, token, extract(epoch FROM started_at), extract(epoch FROM ended_at), failure, "
                    "is_ended_by_holder FROM holdfast.attempt",
                ),
                audit=_rows(connection, "SELECT number, event, job, token, version, said FROM chaos.audit"),
                edges=_rows(connection, "SELECT child, parent FROM holdfast.edge"),
            )


def _rows(connection: psycopg.Connection[tuple[Any, ...]], text: str) -> list[tuple[Any, ...]]:
    return connection.execute(text.encode()).fetchall()


class SQLiteDatabase:
    name = "SQLite"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"

    async def create(self) -> None:
        store = SQLiteStore(self.path)
        await store.open()
        await store.close()
        with self._connect() as connection:
            connection.executescript((SQL / "audit_sqlite.sql").read_text(encoding="utf-8"))

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

    def open_jobs(self) -> int:
        return self._number("SELECT " + " + ".join(f"(SELECT count(*) FROM holdfast_{place})" for place in OPEN_PLACES))

    def accepted(self) -> int:
        return self._number("SELECT count(*) FROM holdfast_job")

    def grow(self) -> None:
        columns = [f"ALTER TABLE holdfast_{table} ADD COLUMN next_version INTEGER DEFAULT 1" for table in GROWING]
        self._migrate([*columns, f"UPDATE holdfast_meta SET version = version + {NEXT_VERSION}"])

    def shrink(self) -> None:
        columns = [f"ALTER TABLE holdfast_{table} DROP COLUMN next_version" for table in GROWING]
        self._migrate([*columns, f"UPDATE holdfast_meta SET version = version - {NEXT_VERSION}"])

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

            return _stored(
                ids={seq: UUID(bytes=job_id) for seq, job_id in rows("SELECT seq, id FROM holdfast_job")},
                budgets=dict(rows("SELECT seq, max_attempts FROM holdfast_job")),
                places={place: rows(f"SELECT job FROM holdfast_{place}") for place in PLACES},
                ended=[
                    (job, state, attempt, _uuid(token), result, _seconds(started_at), _seconds(completed_at))
                    for job, state, attempt, token, result, started_at, completed_at in rows(
                        "SELECT job, state, attempt, last_token, CAST(result AS TEXT), started_at, completed_at "
                        "FROM holdfast_ended"
                    )
                ],
                attempts=[
                    (job, number, _uuid(token), _seconds(started_at), _seconds(ended_at), failure, by_holder)
                    for job, number, token, started_at, ended_at, failure, by_holder in rows(
                        "SELECT job, number, token, started_at, ended_at, failure, is_ended_by_holder "
                        "FROM holdfast_attempt"
                    )
                ],
                audit=[
                    (number, event, job, _uuid(token), version, said)
                    for number, event, job, token, version, said in rows(
                        "SELECT number, event, job, token, version, said FROM chaos_audit"
                    )
                ],
                edges=rows("SELECT child, parent FROM holdfast_edge"),
            )


def _uuid(data: bytes | None) -> UUID | None:
    return None if data is None else UUID(bytes=data)


def _seconds(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / 1e6


def _stored(
    *,
    ids: Mapping[int, UUID],
    budgets: Mapping[int, int],
    places: Mapping[str, Sequence[tuple[Any, ...]]],
    ended: Sequence[tuple[Any, ...]],
    attempts: Sequence[tuple[Any, ...]],
    audit: Sequence[tuple[Any, ...]],
    edges: Sequence[tuple[Any, ...]],
) -> Stored:
    where: defaultdict[int, list[str]] = defaultdict(list)
    for place, rows in places.items():
        for (seq,) in rows:
            where[seq].append(place)
    ends = {row[0]: row[1:] for row in ended}
    return Stored(
        jobs={job_id: _job(job_id, budgets[seq], tuple(where[seq]), ends.get(seq)) for seq, job_id in ids.items()},
        attempts=[_attempt(ids, row) for row in attempts],
        audit=[Audit(row[0], LeaseEvent(row[1]), ids[row[2]], *row[3:]) for row in audit],
        edges=[Edge(ids[child], ids[parent]) for child, parent in edges],
    )


def _job(job_id: UUID, budget: int, places: tuple[str, ...], end: tuple[Any, ...] | None) -> StoredJob:
    if end is None:
        return StoredJob(id=job_id, max_attempts=budget, places=places)
    state, attempt, token, result, started_at, ended_at = end
    return StoredJob(
        id=job_id,
        max_attempts=budget,
        places=places,
        state=state,
        attempt=attempt,
        token=token,
        result=result,
        started_at=None if started_at is None else float(started_at),
        ended_at=float(ended_at),
    )


def _attempt(ids: Mapping[int, UUID], row: tuple[Any, ...]) -> SpentAttempt:
    seq, number, token, started_at, ended_at, failure, is_ended_by_holder = row
    words = json.loads(failure)
    return SpentAttempt(
        job_id=ids[seq],
        number=number,
        token=token,
        started_at=float(started_at),
        ended_at=float(ended_at),
        code=words.get("code") or "",
        message=words.get("message") or "",
        is_ended_by_holder=bool(is_ended_by_holder),
    )
