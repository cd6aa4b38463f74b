"""The servers that the other tests stand on are what those tests take them for."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import psycopg
import pytest

from tests.conftest import NewDatabase
from tests.servers import PgBouncer, PostgresServer
from tests.servers.pgbouncer import POOL_SIZE
from tests.servers.process import wait_until

REPOSITORY = Path(__file__).parents[2]


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    # Without the cache of prepared statements: PgBouncer's transaction mode has none.
    connection = await asyncpg.connect(url, statement_cache_size=0)
    try:
        yield connection
    finally:
        await connection.close()


async def test_postgres_answers(postgres_url: str) -> None:
    async with connected(postgres_url) as connection:
        assert await connection.fetchval("SELECT 1") == 1


@pytest.mark.parametrize("setting", ["fsync", "synchronous_commit", "full_page_writes"])
async def test_postgres_is_durable(postgres_url: str, setting: str) -> None:
    async with connected(postgres_url) as connection:
        assert await connection.fetchval("SELECT current_setting($1)", setting) == "on"


async def test_each_database_is_new_and_empty(new_database: NewDatabase) -> None:
    first, second = new_database(), new_database()
    assert first != second
    async with connected(first) as connection:
        await connection.execute("CREATE TABLE only_in_the_first (id integer)")
    async with connected(second) as connection:
        assert await connection.fetchval("SELECT to_regclass('only_in_the_first')") is None


async def test_a_commit_survives_kill_9(private_postgres: PostgresServer) -> None:
    async with connected(private_postgres.url()) as connection:
        await connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
        private_postgres.kill9()
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await connection.fetchval("SELECT 1")
    private_postgres.start()
    async with connected(private_postgres.url()) as connection:
        assert await connection.fetchval("SELECT number FROM kept") == 7


async def test_a_restart_keeps_the_url(private_postgres: PostgresServer) -> None:
    before = private_postgres.pid
    private_postgres.restart()
    assert private_postgres.pid != before
    async with connected(private_postgres.url()) as connection:
        assert await connection.fetchval("SELECT 1") == 1


def test_the_server_ends_with_a_killed_test_process() -> None:
    program = """
import time
from tests.servers import PostgresServer
server = PostgresServer()
server.start()
print(server.pid, server.url(), server._directory, flush=True)
time.sleep(60)
"""
    child = subprocess.Popen([sys.executable, "-c", program], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    pid, url, directory = child.stdout.readline().split()
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert wait_until(lambda: not is_alive(int(pid)), timeout_seconds=10)
    assert wait_until(lambda: not Path(directory).exists(), timeout_seconds=10)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url, connect_timeout=5)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A dead process whose new parent has not collected it yet still has a PID.
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


async def test_pgbouncer_answers(pgbouncer_url: str) -> None:
    async with connected(pgbouncer_url) as connection:
        assert await connection.fetchval("SELECT 1") == 1


async def test_pgbouncer_serves_more_clients_than_it_has_connections(pgbouncer: PgBouncer, pgbouncer_url: str) -> None:
    settings = {row["key"]: row["value"] for row in pgbouncer.show("CONFIG")}
    assert settings["pool_mode"] == "transaction"
    async with AsyncExitStack() as stack:
        # In session mode the first client beyond the pool's size would wait for ever.
        clients = [await stack.enter_async_context(connected(pgbouncer_url)) for _ in range(POOL_SIZE * 3)]
        async with asyncio.timeout(20):
            backends = [await client.fetchval("SELECT pg_backend_pid()") for client in clients]
    assert len(set(backends)) <= POOL_SIZE


async def test_pgbouncer_reaches_every_database(pgbouncer: PgBouncer, postgres_url: str) -> None:
    name = urlsplit(postgres_url).path.removeprefix("/")
    async with connected(pgbouncer.url(name)) as connection:
        assert await connection.fetchval("SELECT current_database()") == name
