"""Where jobs are kept for one visit: a database, a file or a queue that nobody has used before.

A PostgreSQL system's tables are made once, in a database that those of its visits are then copied from.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Protocol, Self

import psycopg
from psycopg import sql

from benchmarks.peers.catalogue import Variant
from tests.servers import PostgresServer


class Place(Protocol):
    """Where one visit's jobs are."""

    url: str
    queue: str

    def settle_down(self) -> None:
        """As a store is that has been running for a while: statistics made, nothing left to be written."""

    def pending(self) -> int:
        """Jobs that are not terminal, as the store itself says."""

    def kept(self) -> int | None:
        """Finished jobs that there is something left of."""

    def drop(self) -> None: ...


class DatabasePlace:
    def __init__(self, server: PostgresServer, variant: Variant, *, name: str) -> None:
        self._variant = variant
        self._server = server
        self._name = name
        self.url = server.url(name)
        self.queue = "bench"
        self._connection = psycopg.connect(self.url, autocommit=True)

    def settle_down(self) -> None:
        self._connection.execute("VACUUM ANALYZE")
        self._connection.execute("CHECKPOINT")

    def pending(self) -> int:
        assert self._variant.pending is not None
        return self._count(self._variant.pending)

    def kept(self) -> int | None:
        return self._count(self._variant.kept) if self._variant.kept else None

    def _count(self, query: str) -> int:
        row = self._connection.execute(query.encode()).fetchone()
        assert row is not None
        return int(row[0])

    def drop(self) -> None:
        self._connection.close()
        execute(self._server, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(self._name)))


class FilePlace:
    def __init__(self, variant: Variant) -> None:
        self._variant = variant
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-peers-"))
        self._path = self._folder / "jobs.db"
        self.url = f"sqlite:///{self._path}"
        self.queue = "bench"

    def settle_down(self) -> None:
        pass

    def pending(self) -> int:
        assert self._variant.pending is not None
        return self._count(self._variant.pending)

    def kept(self) -> int | None:
        return self._count(self._variant.kept) if self._variant.kept else None

    def _count(self, query: str) -> int:
        connection = sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, timeout=30)
        try:
            return int(connection.execute(query).fetchone()[0])
        finally:
            connection.close()

    def drop(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


@dataclass(slots=True)
class Stores:
    """The servers, each started when it is first wanted."""

    _postgres: PostgresServer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._postgres is not None:
            self._postgres.close()

    @property
    def postgres(self) -> PostgresServer:
        if self._postgres is None:
            self._postgres = PostgresServer()
            self._postgres.start()
        return self._postgres

    def processes(self, store: str) -> list[int]:
        """The roots of the server's process trees; none for a file."""
        return [self.postgres.pid] if store == "postgres" else []

    def place(self, variant: Variant, setup: Callable[[str], None]) -> Place:
        if variant.store == "postgres":
            return self._database(variant, setup)
        assert variant.store == "sqlite"
        return FilePlace(variant)

    def _database(self, variant: Variant, setup: Callable[[str], None]) -> DatabasePlace:
        template = f"template_{variant.name.replace('-', '_')}"
        if not self._has_database(template):
            execute(self.postgres, sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(template)))
            setup(self.postgres.url(template))
        name = f"visit_{token_hex(8)}"
        command = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        execute(self.postgres, command.format(sql.Identifier(name), sql.Identifier(template)))
        return DatabasePlace(self.postgres, variant, name=name)

    def _has_database(self, name: str) -> bool:
        with psycopg.connect(self.postgres.url()) as connection:
            row = connection.execute("SELECT FROM pg_database WHERE datname = %s", [name]).fetchone()
            return row is not None


def execute(server: PostgresServer, statement: sql.Composed) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(statement)
