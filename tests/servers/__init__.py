"""Real servers for tests: private, on a free port of the loopback, gone with the process that starts them."""

from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import Postgres, PostgresServer
from tests.servers.process import ServerUnavailable

__all__ = ["PgBouncer", "Postgres", "PostgresServer", "ServerUnavailable"]
