"""Where jobs are kept for one visit: a database, a file or a queue that nobody has used before.

A PostgreSQL system's tables are made once, in a database that those of its visits are then copied from.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex
from typing import Any, Protocol, Self, TypeVar

import psycopg
from psycopg import sql

from benchmarks.peers.catalogue import Variant
from tests.servers import PostgresServer, RabbitServer, RedisServer, ServerUnavailable

Server = TypeVar("Server", PostgresServer, RedisServer, RabbitServer)


class Place(Protocol):
    """Where one visit's jobs are."""

    url: str
    queue: str
    is_asked_at_once: bool
    """False where asking takes so long that the end must be taken from the ledger; the store then confirms it."""

    def settle_down(self) -> None:
        """As a store is that has been running for a while: statistics made, nothing left to be written."""

    def pending(self) -> int:
        """Jobs that are not terminal, as the store itself says."""

    def kept(self) -> int | None:
        """Finished jobs that there is something left of."""

    def drop(self) -> None: ...


class DatabasePlace:
    is_asked_at_once = True

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
    is_asked_at_once = True

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


class RedisPlace:
    """All of the server: emptied first."""

    is_asked_at_once = True

    def __init__(self, server: RedisServer, variant: Variant) -> None:
        self._server = server
        self._variant = variant
        self.url = server.url
        self.queue = "bench"
        server.ask("FLUSHALL")

    def settle_down(self) -> None:
        pass

    def pending(self) -> int:
        assert self._variant.pending is not None
        return int(self._server.ask("EVAL", self._variant.pending, "1", self.queue))

    def kept(self) -> int | None:
        return None

    def drop(self) -> None:
        pass


class BrokerPlace:
    """A queue with a name that nobody has used."""

    is_asked_at_once = False

    def __init__(self, server: RabbitServer) -> None:
        self._server = server
        self.url = server.url
        self.queue = f"visit-{token_hex(8)}"

    def settle_down(self) -> None:
        pass

    def pending(self) -> int:
        return sum(count for name, count in self._server.queues().items() if name.startswith(self.queue))

    def kept(self) -> int | None:
        return None

    def drop(self) -> None:
        pass


class Stores:
    """The servers, each started when it is first wanted."""

    def __init__(self) -> None:
        self._running = ExitStack()
        self._servers: dict[type, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    @property
    def postgres(self) -> PostgresServer:
        return self._server(PostgresServer)

    @property
    def redis(self) -> RedisServer:
        return self._server(RedisServer)

    @property
    def rabbitmq(self) -> RabbitServer:
        return self._server(RabbitServer)

    def _server(self, kind: type[Server]) -> Server:
        """One that could not be had is not tried again."""
        if kind not in self._servers:
            try:
                self._servers[kind] = self._running.enter_context(kind())
            except ServerUnavailable as error:
                self._servers[kind] = error
        server = self._servers[kind]
        if isinstance(server, ServerUnavailable):
            raise server
        assert isinstance(server, kind)
        return server

    def versions(self) -> dict[str, str]:
        """Of the brokers that were used, and what they promise."""
        found = {}
        if isinstance(self._servers.get(RedisServer), RedisServer):
            facts = dict(line.split(":", 1) for line in self.redis.ask("INFO").splitlines() if ":" in line)
            found["Redis"] = f"{facts['redis_version']}, append-only file {('off', 'on')[int(facts['aof_enabled'])]}"
        if isinstance(self._servers.get(RabbitServer), RabbitServer):
            found["RabbitMQ"] = self.rabbitmq.version()
        return found

    def processes(self, store: str) -> list[int]:
        """The roots of the server's process trees; none for a file."""
        return [] if store == "sqlite" else [getattr(self, store).pid]

    def place(self, variant: Variant, setup: Callable[[str], None]) -> Place:
        match variant.store:
            case "postgres":
                return self._database(variant, setup)
            case "redis":
                return RedisPlace(self.redis, variant)
            case "rabbitmq":
                return BrokerPlace(self.rabbitmq)
            case _:
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
