"""A private PgBouncer in transaction pooling mode.

It stands between Holdfast and PostgreSQL as it does in many productions: a session's state (prepared
statements, LISTEN, advisory session locks, SET) does not survive a transaction here.
"""

import os
import re
import shutil
import signal
import subprocess
import warnings
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote, urlsplit, urlunsplit

import psycopg

from tests.servers.process import (
    GuardedProcess,
    ServerUnavailable,
    free_port,
    give_away,
    make_directory,
    one_at_a_time,
    wait_until,
)

POOL_SIZE = 4
MAX_CLIENTS = 500
START_TIMEOUT_SECONDS = 10.0
INSTALL_TIMEOUT_SECONDS = 100.0
INSTALL_COMMAND = ("apt-get", "install", "-y", "--no-install-recommends", "pgbouncer")
# Before this version PgBouncer knew neither the setting nor prepared statements in transaction mode.
PREPARED_STATEMENTS_SINCE = (1, 21)


class PgBouncer:
    """In front of the server that ``postgres_url`` points to, for all of its databases."""

    def __init__(self, postgres_url: str) -> None:
        self._binary = find_binary()
        self._postgres_url = postgres_url
        self._port = free_port()
        self._directory = make_directory("pgbouncer")
        self._process: GuardedProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def url(self, database: str) -> str:
        user = urlsplit(self._postgres_url).username or "postgres"
        return urlunsplit(("postgresql", f"{user}@127.0.0.1:{self._port}", f"/{database}", "", ""))

    def start(self) -> None:
        config = self._directory / "pgbouncer.ini"
        config.write_text(self._config())
        config.chmod(0o600)  # it may contain a password
        give_away(config)
        log = self._directory / "log"
        self._process = GuardedProcess(
            [self._binary, config], directory=self._directory, log=log, end_signal=signal.SIGTERM
        )
        if not wait_until(self._answers, timeout_seconds=START_TIMEOUT_SECONDS):
            self._process.end()
            raise ServerUnavailable(f"PgBouncer did not start; its log says:\n{log.read_text()[-2000:]}")

    def revive(self) -> None:
        """Start it again where it has gone, and say so: what ended it must fail one test, not all that follow."""
        if self._process is not None and not self._process.is_running:
            log = self._directory / "log"
            last_words = log.read_text()[-1000:] if log.exists() else "its folder is gone: its guard ended it"
            warnings.warn(f"PgBouncer was gone and is started again; {last_words}", stacklevel=2)
            self._process.end()
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = make_directory("pgbouncer")
            self.start()

    def close(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None
        shutil.rmtree(self._directory, ignore_errors=True)

    def show(self, what: str) -> list[dict[str, Any]]:
        """The rows of SHOW … in PgBouncer's own console."""
        with psycopg.connect(self.url("pgbouncer"), autocommit=True, connect_timeout=5) as console:
            cursor = console.execute(f"SHOW {what}".encode())
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def _answers(self) -> bool:
        try:
            self.show("VERSION")
        except psycopg.OperationalError:
            return False
        return True

    def _config(self) -> str:
        target = urlsplit(self._postgres_url)
        upstream = {
            "host": target.hostname or "127.0.0.1",
            "port": str(target.port or 5432),
            "user": unquote(target.username or "postgres"),
            "password": unquote(target.password or ""),
        }
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": str(self._port),
            "unix_socket_dir": "",
            "auth_type": "any",
            "admin_users": upstream["user"],
            "pool_mode": "transaction",
            "default_pool_size": str(POOL_SIZE),
            "max_client_conn": str(MAX_CLIENTS),
            # asyncpg and psycopg send it at the start of a session, and it means nothing to us.
            "ignore_startup_parameters": "extra_float_digits",
        }
        if version_of(self._binary) >= PREPARED_STATEMENTS_SINCE:
            settings["max_prepared_statements"] = "0"
        database = " ".join(f"{name}={quoted(value)}" for name, value in upstream.items() if value)
        lines = [f"{name} = {value}" for name, value in settings.items()]
        return "\n".join(["[databases]", f"* = {database}", "[pgbouncer]", *lines, ""])


def quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def find_binary() -> Path:
    """The machine's pgbouncer; installed when it is missing and we may."""
    binary = locate()
    if binary is None and os.geteuid() == 0 and shutil.which("apt-get"):
        with one_at_a_time("pgbouncer"):
            # Another process of the tests may have been first.
            if locate() is None:
                install()
        binary = locate()
    if binary is None:
        raise ServerUnavailable(f"no PgBouncer: {' '.join(INSTALL_COMMAND)}")
    return binary


def locate() -> Path | None:
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    return Path(found) if found else None


def install() -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (("apt-get", "update"), INSTALL_COMMAND):
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise ServerUnavailable(f"{' '.join(command)} failed: {done.stderr.strip()[-1000:]}")


def version_of(binary: Path) -> tuple[int, ...]:
    answer = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"(\d+)\.(\d+)", answer)
    assert match is not None, answer
    return tuple(int(part) for part in match.groups())
