"""The servers that tests share.

One PostgreSQL serves a whole run, also with pytest-xdist: the controlling process starts it and hands its
URL to the workers; each test that asks gets a database of its own in it. A server that cannot be had fails
the tests that need it, with the remedy as the message; it never skips them.
"""

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests.servers import PgBouncer, Postgres, PostgresPair, PostgresServer, ServerUnavailable
from tests.servers.postgres import named_server

# Tests start programs from processes in which gRPC runs: its handlers would end such a child before it has begun.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
# Programs under test write to pipes as they would for anybody: buffered, unless they see to it themselves.
os.environ.pop("PYTHONUNBUFFERED", None)

NewDatabase = Callable[[], str]

WORKER_URL = "holdfast_postgres_url"
WORKER_PROBLEM = "holdfast_postgres_problem"
shared_server = pytest.StashKey[PostgresServer]()

# No test asserts a duration.
settings.register_profile("holdfast", deadline=None)
settings.load_profile("holdfast")


class HandOutServer:
    """Runs in the process that controls pytest-xdist's workers, and only there."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        config: pytest.Config = node.config
        try:
            node.workerinput[WORKER_URL] = self._server(config).url()
        except ServerUnavailable as problem:
            node.workerinput[WORKER_PROBLEM] = str(problem)

    def _server(self, config: pytest.Config) -> Postgres:
        named = named_server()
        if named is not None:
            return named
        if shared_server not in config.stash:
            server = PostgresServer()
            config.add_cleanup(server.close)
            server.start()
            config.stash[shared_server] = server
        return config.stash[shared_server]


def pytest_configure(config: pytest.Config) -> None:
    # A shell that starts the tests in the background has them, and the programs that they start, ignore Ctrl-C.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.pluginmanager.hasplugin("dsession"):
        config.pluginmanager.register(HandOutServer())


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    """The shared server. Do not stop it: other tests use it; ``private_postgres`` is for that."""
    given: dict[str, str] = getattr(request.config, "workerinput", {})
    if WORKER_PROBLEM in given:
        pytest.fail(given[WORKER_PROBLEM], pytrace=False)
    if WORKER_URL in given:
        yield from with_databases_dropped(Postgres(given[WORKER_URL]))
        return
    named = named_server()
    if named is not None:
        yield from with_databases_dropped(named)
        return
    with started_postgres() as server:
        yield server


@pytest.fixture
def private_postgres() -> Iterator[PostgresServer]:
    """A running server of the test's own, to stop, kill and restart."""
    with started_postgres() as server:
        yield server


@pytest.fixture
def postgres_pair() -> Iterator[PostgresPair]:
    """A primary and a streaming standby of the test's own, to hold back, kill and promote."""
    try:
        pair = PostgresPair()
    except ServerUnavailable as problem:
        pytest.fail(str(problem), pytrace=False)
    with pair:
        yield pair


@pytest.fixture
def new_database(postgres_server: Postgres) -> Iterator[NewDatabase]:
    """Makes a fresh, empty database at each call and returns its URL; all are dropped after the test."""
    names: list[str] = []

    def create() -> str:
        names.append(postgres_server.create_database())
        return postgres_server.url(names[-1])

    yield create
    for name in names:
        postgres_server.drop_database(name)


@pytest.fixture
def postgres_url(new_database: NewDatabase) -> str:
    """The URL of a fresh, empty database."""
    return new_database()


@pytest.fixture(scope="session")
def pgbouncer_of_session(postgres_server: Postgres) -> Iterator[PgBouncer]:
    """PgBouncer in transaction mode before the shared server: ``pgbouncer.url(database)``."""
    try:
        bouncer = PgBouncer(postgres_server.url())
    except ServerUnavailable as problem:
        pytest.fail(str(problem), pytrace=False)
    with bouncer:
        yield bouncer


@pytest.fixture
def pgbouncer(pgbouncer_of_session: PgBouncer) -> PgBouncer:
    pgbouncer_of_session.revive()
    return pgbouncer_of_session


@pytest.fixture(scope="session")
def pgbouncer_url(pgbouncer_of_session: PgBouncer, postgres_server: Postgres) -> Iterator[str]:
    """The URL of one database of the session, through PgBouncer."""
    name = postgres_server.create_database()
    yield pgbouncer_of_session.url(name)
    postgres_server.drop_database(name)


def started_postgres() -> PostgresServer:
    try:
        server = PostgresServer()
        server.start()
    except ServerUnavailable as problem:
        pytest.fail(str(problem), pytrace=False)
    return server


def with_databases_dropped(server: Postgres) -> Iterator[Postgres]:
    yield server
    server.drop_databases()
