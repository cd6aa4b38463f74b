"""A primary and a streaming standby: killed, promoted and built up again as often as a test likes.

``PostgresPair`` knows which of its two servers is the primary now. Both keep their ports for good, so its URL, which
names both, stays right whoever is the primary.

What a failover loses is what the primary has acknowledged and not sent. Over a loopback that is nearly nothing, so
``hold_back`` stops the primary's senders: from then on nothing reaches the standby. (To pause the replay would lose
nothing: what a standby has received it replays before it is promoted.)
"""

import contextlib
import os
import signal
import time
from typing import Any, Final, Self

import psycopg

from tests.servers.postgres import SUPERUSER, PostgresServer
from tests.servers.process import ServerUnavailable, wait_until

CATCH_UP_SECONDS: Final = 60.0
CALL_SECONDS: Final = 5
TARGET: Final = "target_session_attrs=read-write"
KEPT_WAL: Final = "256MB"
"""A standby that is being built may be behind by more than the primary would keep for it."""


class StandbyServer(PostgresServer):
    """A copy of a running server that follows it until it is promoted."""

    def __init__(self, primary: PostgresServer, *, port: int | None = None) -> None:
        self._primary = primary
        super().__init__(port=port)

    def _initialise(self) -> None:
        # --no-sync concerns only the copied files, as with initdb.
        self._run("pg_basebackup", "-d", self._primary.url(), "-R", "-X", "stream", "-c", "fast", "--no-sync")

    def promote(self) -> None:
        """Returns when it can be written to."""
        self._run("pg_ctl", "promote", "-w")


class PostgresPair:
    """Use as a context manager, or call ``close``."""

    def __init__(self) -> None:
        self.primary = PostgresServer()
        self.standby: StandbyServer | None = None
        self._ports = [self.primary.port]
        try:
            self.primary.start()
            self.set("wal_keep_size", KEPT_WAL)
            self.build_standby()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for server in (self.standby, self.primary):
            if server is not None:
                server.close()

    def url(self, database: str = "postgres", *, is_standby_first: bool = False) -> str:
        """Of both, for those who look for the primary themselves."""
        ports = [self.primary.port, *(port for port in self._ports if port != self.primary.port)]
        if is_standby_first:
            ports.reverse()
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return f"postgresql://{SUPERUSER}@{hosts}/{database}?{TARGET}"

    def create_database(self) -> str:
        return self.primary.create_database()

    # replication

    def build_standby(self) -> None:
        """A fresh copy of the primary, where there is none: on the port of the server that was killed."""
        assert self.standby is None, "there is a standby"
        free = [port for port in self._ports if port != self.primary.port]
        self.standby = StandbyServer(self.primary, port=free[0] if free else None)
        if not free:
            self._ports.append(self.standby.port)
        self.standby.start()
        self.catch_up()

    def catch_up(self) -> None:
        """Returns when all that the primary has on its disk now is safe on the standby's disk."""
        self._wait("the standby follows", lambda: bool(self._senders()))
        ((position,),) = self._ask(self.primary, "SELECT pg_current_wal_flush_lsn()::text")
        flushed = f"SELECT 1 FROM pg_stat_replication WHERE flush_lsn >= '{position}'"
        self._wait("the standby has caught up", lambda: bool(self._ask(self.primary, flushed)))

    def hold_back(self) -> float:
        """Nothing reaches the standby any more. Returns when: what was committed before that, it has."""
        held_at = time.monotonic()
        self.catch_up()
        for pid in self._senders():
            os.kill(pid, signal.SIGSTOP)
        return held_at

    def release(self) -> None:
        """Take ``hold_back`` back."""
        for pid in self._senders():
            os.kill(pid, signal.SIGCONT)

    def make_synchronous(self) -> None:
        """Returns when every commit waits for the standby."""
        self.set("synchronous_standby_names", "*")
        is_synchronous = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
        self._wait("the standby is synchronous", lambda: bool(self._ask(self.primary, is_synchronous)))
        # So says its sender. Commits wait once the checkpointer has read the setting, as it does before a checkpoint.
        self._ask(self.primary, "CHECKPOINT")
        self.catch_up()

    def fail_over(self) -> None:
        """Kill the primary, every process of it at once, and promote the standby. ``build_standby`` makes a new one."""
        self.kill_primary()
        self.promote()

    def kill_primary(self) -> None:
        self.primary.kill9()

    def promote(self) -> None:
        """The standby becomes the primary, and waits for no other. The old one is gone for good."""
        assert self.standby is not None, "there is no standby"
        self.standby.promote()
        old, self.primary, self.standby = self.primary, self.standby, None
        # Its settings are those of the server it was copied from.
        self.set("synchronous_standby_names", "")
        old.close()

    # questions

    def set(self, name: str, value: str) -> None:
        """A setting of the primary's that needs no restart."""
        self._ask(self.primary, f"ALTER SYSTEM SET {name} = '{value}'")
        self._ask(self.primary, "SELECT pg_reload_conf()")

    def _senders(self) -> list[int]:
        # A base backup that has just ended is a sender, too, for a moment.
        return [
            pid for (pid,) in self._ask(self.primary, "SELECT pid FROM pg_stat_replication WHERE state = 'streaming'")
        ]

    def _ask(self, server: PostgresServer, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(server.url(), autocommit=True, connect_timeout=CALL_SECONDS) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def _wait(self, what: str, holds: Any) -> None:
        def is_so() -> bool:
            with contextlib.suppress(psycopg.OperationalError):
                return bool(holds())
            return False

        if not wait_until(is_so, timeout_seconds=CATCH_UP_SECONDS):
            raise ServerUnavailable(f"not so after {CATCH_UP_SECONDS:.0f} s: {what}\n{self.primary.log[-1000:]}")
