"""The database that a command works on: which one, waiting for it, and what to run where its tables are missing."""

import argparse
import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, TypeVar

from holdfast.cli import values
from holdfast.cli.streams import note
from holdfast.core.errors import ConfigError, SchemaMismatch, SchemaMissing, Unavailable, UsageError
from holdfast.engine.engine import Engine
from holdfast.wiring import DEFAULT_URL, URL_VARIABLE, create_store, sqlite_path, without_password

RETRY_SECONDS: Final = 0.5
ADVICE: Final = "run: holdfast migrate"
SQLITE: Final = "sqlite:///"
Answer = TypeVar("Answer")


def add_url(
    parser: argparse.ArgumentParser,
    *,
    patience_seconds: float = 0.0,
    is_nested: bool = False,
    default: str = f"${URL_VARIABLE}, else {DEFAULT_URL}",
) -> None:
    """``patience_seconds``: a worker may be started before its database, a question is answered at once.

    ``default`` is for the help alone.
    """
    parser.add_argument(
        "--url",
        default=argparse.SUPPRESS if is_nested else None,
        help=f"the database; default: {default}",
    )
    parser.add_argument(
        "--connect-timeout",
        type=values.seconds,
        default=argparse.SUPPRESS if is_nested else patience_seconds,
        metavar="SECONDS",
        help=f"how long to wait for a database that is away; default: {patience_seconds:.0f}",
    )


def add_json(parser: argparse.ArgumentParser, *, what: str = "one JSON object", is_nested: bool = False) -> None:
    """``is_nested``: said before the action or after it, and the second parser must not forget the first."""
    default = argparse.SUPPRESS if is_nested else False
    parser.add_argument("--json", action="store_true", default=default, help=what)


def url_of(arguments: argparse.Namespace) -> str:
    return arguments.url or os.environ.get(URL_VARIABLE) or DEFAULT_URL


@asynccontextmanager
async def open_engine(
    arguments: argparse.Namespace, *, creates: bool = False, migrates: bool = True
) -> AsyncIterator[Engine]:
    """The open engine on ``--url``. Unless the command ``creates``, a SQLite file must be there already."""
    with checked(url_of(arguments)) as url:
        require_shared(url)
        if not creates:
            require_file(url)
        engine = Engine(create_store(url, migrates=migrates))
    await patiently(engine.open, url=url, timeout_seconds=arguments.connect_timeout)
    try:
        yield engine
    finally:
        await engine.close()


@contextmanager
def checked(url: str) -> Iterator[str]:
    """A URL that no parser understands is the user's mistake, whoever stumbles over it."""
    try:
        yield url
    except ValueError as error:
        raise ConfigError(
            f"{url!r} is not a URL ({error}); write sqlite:///jobs.db or postgresql://host/name"
        ) from error


def require_shared(url: str) -> None:
    if url.startswith("memory:"):
        raise UsageError("memory:// lives inside one program and cannot be asked from here; use sqlite:///jobs.db")


def require_file(url: str) -> None:
    """Opening a SQLite file makes it; a mistyped name should not look like an empty queue."""
    if url.startswith(SQLITE) and not (path := sqlite_path(url)).exists():
        raise ConfigError(
            f"no database file {path}; check --url and ${URL_VARIABLE}, or make it: holdfast migrate --url {url}"
        )


async def patiently(
    attempt: Callable[[], Awaitable[Answer]],
    *,
    url: str,
    timeout_seconds: float,
    say: Callable[[str], None] = note,
) -> Answer:
    """Repeat while the database is away, for so long; say so once. Schema errors name the command that helps."""
    deadline: float | None = None
    while True:
        try:
            return await attempt()
        except (SchemaMissing, SchemaMismatch) as error:
            raise _with_url(error, url) from error
        except Unavailable as error:
            now = time.monotonic()
            if not timeout_seconds or (deadline is not None and now >= deadline):
                raise
            if deadline is None:
                deadline = now + timeout_seconds
                say(f"{error}; trying again for {timeout_seconds:.0f} s (--connect-timeout)")
        await asyncio.sleep(RETRY_SECONDS)


def _with_url(error: SchemaMissing | SchemaMismatch, url: str) -> SchemaMissing | SchemaMismatch:
    said = str(error)
    if ADVICE not in said:
        return error
    return type(error)(said.replace(ADVICE, f"{ADVICE} --url {without_password(url)}"))
