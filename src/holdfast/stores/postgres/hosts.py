"""Which of the URL's hosts to connect to: the first that answers and can be written to.

Of a primary and its standbys only one is the primary, and after a failover it is another. The driver can walk over
several hosts by itself, but only with one time limit for all of them: a first host that swallows everything would use
it up. So each host is tried by itself.

HOST-1. Of several hosts each has ``HOST_SECONDS``; a single one has ``CONNECT_SECONDS``.
HOST-2. A host that failed, or in which somebody's patience ran out, is the last to be tried next time. So the one that
    was good stays the first, and a dead one costs its time once.
HOST-3. With several hosts and no ``target_session_attrs`` of the caller's, a server that cannot be written to is passed
    by: a queue has no use for it.
HOST-4. A refusal that trying again does not cure (a wrong password, no such database) is raised where every host gave
    one. A standby may be behind, and not know the database or the password yet.
"""

import asyncio
import os
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit, urlunsplit

import asyncpg

from holdfast.core.errors import ConfigError, Unavailable
from holdfast.stores.postgres.errors import translate

HOST_SECONDS: Final = 3.0
CONNECT_SECONDS: Final = 10.0
TARGET: Final = "target_session_attrs"
TARGET_VARIABLE: Final = "PGTARGETSESSIONATTRS"
WRITABLE: Final = "read-write"


class Hosts:
    def __init__(self, url: str) -> None:
        try:
            self._urls = one_host_each(url)
        except ValueError as error:
            raise _not_understood(error) from error
        self._arguments = {TARGET: WRITABLE} if len(self._urls) > 1 and not _names_target(url) else {}

    async def connect(self, **arguments: Any) -> asyncpg.Connection:
        """ConfigError where the driver cannot make sense of the URL; Unavailable says what each host said."""
        if len(self._urls) == 1:
            (url,) = self._urls.values()
            return await open_connection(url, timeout=CONNECT_SECONDS, **arguments)
        refusals: dict[str, Exception] = {}
        for host, url in list(self._urls.items()):
            try:
                return await open_connection(url, timeout=HOST_SECONDS, **self._arguments, **arguments)
            except asyncio.CancelledError:
                self._put_last(host)
                raise
            except ConfigError:
                raise
            except Exception as error:
                self._put_last(host)
                refusals[host] = error
        if not any(_may_pass(error) for error in refusals.values()):
            raise next(iter(refusals.values()))
        said = "; ".join(f"{host}: {_words(error)}" for host, error in refusals.items())
        cause = ExceptionGroup("each host", list(refusals.values()))
        raise Unavailable(f"no host of the URL could be connected to and written to ({said})") from cause

    def _put_last(self, host: str) -> None:
        self._urls[host] = self._urls.pop(host)


async def open_connection(url: str, **arguments: Any) -> asyncpg.Connection:
    try:
        connection: asyncpg.Connection = await asyncpg.connect(url, **arguments)
    except ValueError as error:
        raise _not_understood(error) from error
    return connection


def _not_understood(error: ValueError) -> ConfigError:
    return ConfigError(f"the URL is not one that PostgreSQL's driver takes: {error}")


def one_host_each(url: str) -> dict[str, str]:
    """A URL for each host that stands before the database's name, by host and in their order."""
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    if "," not in hosts:
        return {hosts: url}
    return {host: urlunsplit(parts._replace(netloc=f"{user}{at}{host}")) for host in hosts.split(",")}


def _names_target(url: str) -> bool:
    return TARGET in parse_qs(urlsplit(url).query) or TARGET_VARIABLE in os.environ


def _may_pass(error: Exception) -> bool:
    return isinstance(translate(error), Unavailable)


def _words(error: Exception) -> str:
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return "is a standby or read-only"
    if isinstance(error, TimeoutError):
        return f"no answer within {HOST_SECONDS:.0f} s"
    return " ".join(str(error).split())
