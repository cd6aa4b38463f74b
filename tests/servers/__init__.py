"""Real servers for tests: private, on a free port of the loopback, gone with the process that starts them."""

from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import Postgres, PostgresServer
from tests.servers.process import ServerUnavailable
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import RedisServer
from tests.servers.s3 import S3Server
from tests.servers.standby import PostgresPair, StandbyServer

__all__ = [
    "PgBouncer",
    "Postgres",
    "PostgresPair",
    "PostgresServer",
    "RabbitServer",
    "RedisServer",
    "S3Server",
    "ServerUnavailable",
    "StandbyServer",
]
