"""The two stores as a soak sees them from outside: made, asked how large they are, and whether anything is left."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Protocol

import psycopg

from benchmarks.peers.usage import memory_mib
from holdfast.stores.postgres import migrate
from holdfast.stores.sqlite import SQLiteStore
from tests.servers import PostgresServer

OPEN_PLACES: Final = ("ready", "waiting", "running", "mark")
"""What is empty when everything has ended."""
MEBIBYTE: Final = 1024 * 1024
PATIENCE_SECONDS: Final = 30.0


class Database(Protocol):
    name: str
    url: str

    async def create(self) -> None: ...

    def sample(self) -> dict[str, float]:
        """The figures that the database can tell, by name."""
        ...

    def open_jobs(self) -> int:
        """What has not ended, or has not told those that wait for it."""
        ...

    def all_jobs(self) -> int: ...

    def close(self) -> None: ...


class PostgresDatabase:
    name = "PostgreSQL"

    def __init__(self) -> None:
        self._server = PostgresServer()
        self._server.start()
        self.url = self._server.url(self._server.create_database())
        self._has_statements = False
        self._spent: dict[str, tuple[int, float]] = {}

    async def create(self) -> None:
        self._count_statements()
        await migrate.upgrade(self.url)

    def _count_statements(self) -> None:
        """With pg_stat_statements, where the server has it: then it says itself how long claims take."""
        (available,) = self._rows("SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_stat_statements'")[0]
        if not available:
            return
        self._rows("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'")
        self._server.restart()
        self._rows("CREATE EXTENSION pg_stat_statements")
        self._has_statements = True

    def _rows(self, text: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            return cursor.fetchall() if cursor.description else []

    def sample(self) -> dict[str, float]:
        ((tables, indexes),) = self._rows(
            "SELECT sum(pg_table_size(c.oid)), sum(pg_indexes_size(c.oid)) FROM pg_class c "
            "WHERE c.relnamespace = 'holdfast'::regnamespace AND c.relkind = 'r'"
        )
        found = {
            "memory of the server, MiB": memory_mib([self._server.pid]),
            "tables, MiB": float(tables) / MEBIBYTE,
            "indexes, MiB": float(indexes) / MEBIBYTE,
        }
        if self._has_statements:
            found |= self._statement("claim, in the server, ms", "-- claim.lease%")
            found |= self._statement("tick, in the server, ms", "-- tick.ask%")
        return found

    def _statement(self, name: str, pattern: str) -> dict[str, float]:
        """The mean since the last sample."""
        ((calls, spent),) = self._rows(
            "SELECT coalesce(sum(calls), 0), coalesce(sum(total_exec_time), 0) FROM pg_stat_statements "
            f"WHERE query LIKE '{pattern}'"
        )
        calls_before, spent_before = self._spent.get(name, (0, 0.0))
        self._spent[name] = (int(calls), float(spent))
        if int(calls) == calls_before:
            return {}
        return {name: (float(spent) - spent_before) / (int(calls) - calls_before)}

    def open_jobs(self) -> int:
        parts = " + ".join(f"(SELECT count(*) FROM holdfast.{place})" for place in OPEN_PLACES)
        return int(self._rows(f"SELECT {parts}")[0][0])

    def all_jobs(self) -> int:
        return int(self._rows("SELECT count(*) FROM holdfast.job")[0][0])

    def close(self) -> None:
        self._server.close()


class SQLiteDatabase:
    name = "SQLite"

    def __init__(self, folder: Path) -> None:
        self._path = folder / "jobs.db"
        self.url = f"sqlite:///{self._path}"

    async def create(self) -> None:
        store = SQLiteStore(self._path)
        await store.open()
        await store.close()

    def _number(self, text: str) -> int:
        with closing(sqlite3.connect(self._path, timeout=PATIENCE_SECONDS, isolation_level=None)) as connection:
            return int(connection.execute(text).fetchone()[0])

    def sample(self) -> dict[str, float]:
        page_bytes = self._number("PRAGMA page_size")
        pages, free = self._number("PRAGMA page_count"), self._number("PRAGMA freelist_count")
        return {
            "file, MiB": pages * page_bytes / MEBIBYTE,
            "tables and indexes, MiB": (pages - free) * page_bytes / MEBIBYTE,
        }

    def open_jobs(self) -> int:
        parts = " + ".join(f"(SELECT count(*) FROM holdfast_{place})" for place in OPEN_PLACES)
        return self._number(f"SELECT {parts}")

    def all_jobs(self) -> int:
        return self._number("SELECT count(*) FROM holdfast_job")

    def close(self) -> None: ...
