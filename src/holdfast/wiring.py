"""From a URL to a store and its delivery.

The only module that knows both the ports and their implementations, which it imports lazily.

::

    memory://
    sqlite:///jobs.db                     a path relative to the working directory; four slashes for an absolute one;
                                          escaped as in every URL (%20 is a space), no options
    postgresql://user@host/database       options: schema=NAME, pool=CONNECTIONS, prepared=off and listen=off
                                          (for a transaction pooler); the rest is the driver's
    postgresql://user@one,two/database    a primary and its standbys, in any order

Execution logs lie elsewhere: a folder, ``s3://bucket/prefix`` or ``memory://``; ``off`` for none.
"""

import os
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from holdfast.core import limits
from holdfast.core.errors import ConfigError
from holdfast.core.ports import Delivery, LogStore, Store

DEFAULT_URL: Final = "sqlite:///holdfast.db"
URL_VARIABLE: Final = "HOLDFAST_URL"
LOGS_VARIABLE: Final = "HOLDFAST_LOGS"
NO_LOGS: Final = "off"
DEFAULT_SCHEMA: Final = "holdfast"
_SQLITE: Final = "sqlite:///"
_OPTIONS: Final = frozenset({"schema", "prepared", "listen", "pool"})
_SWITCHES: Final = {"on": True, "off": False}


def create_store(url: str, *, migrates: bool = True) -> Store:
    """A store that is not open yet; ConfigError where the URL or an installed package is at fault.

    A SQLite file is migrated when it is opened, unless ``migrates`` is False; PostgreSQL only by ``holdfast migrate``.
    """
    scheme = url.partition("://")[0]
    maker = _MAKERS.get(scheme)
    if maker is None:
        known = ", ".join(f"{name}://" for name in _MAKERS)
        raise ConfigError(f"{without_password(url)!r} names no store; a URL starts with one of {known}")
    return maker(url, migrates)


def create_delivery(store: Store) -> Delivery:
    """How a worker of this store hears of work, not open yet. One for each worker."""
    from holdfast.deliveries.poll import PollDelivery

    return PollDelivery(store)


def settled_url(url: str) -> str:
    """Names the same store wherever the working directory goes, and for whoever opens one later."""
    return sqlite_url(sqlite_path(url).absolute()) if url.startswith(_SQLITE) else url


def settled_log_url(url: str | None) -> str | None:
    return url if url is None or "://" in url else str(Path(url).absolute())


def sqlite_path(url: str) -> Path:
    """The file that a ``sqlite:///`` URL names."""
    if not url.startswith(_SQLITE) or url == _SQLITE:
        raise ConfigError(f"{url!r} names no file; write sqlite:///jobs.db")
    path, mark, options = url.removeprefix(_SQLITE).partition("?")
    if mark:
        raise ConfigError(
            f"{url!r}: a sqlite:/// URL takes no options, so leave out ?{options} (in a file's name, ? is written %3F)"
        )
    if "#" in path:
        raise ConfigError(f"{url!r}: a sqlite:/// URL has no #fragment (in a file's name, # is written %23)")
    if "%00" in path:
        raise ConfigError(f"{url!r} names no file: %00 cannot be part of a name")
    return Path(unquote(path))


def sqlite_url(path: Path) -> str:
    return _SQLITE + re.sub(r"[%?#\s]", lambda found: quote(found[0]), str(path))


def create_log_store(url: str) -> LogStore:
    """Where execution logs are kept, not open yet; ConfigError where the URL is at fault."""
    from holdfast.logs import ObjectLogStore

    return ObjectLogStore(url)


def find_log_url(given: str | None, store_url: str) -> str | None:
    """What was given, else the default; None where that is ``off``."""
    if given is None:
        return default_log_url(store_url)
    return None if given == NO_LOGS else given


def default_log_url(store_url: str) -> str | None:
    """$HOLDFAST_LOGS; else a folder beside the database file, or in the working directory. None where it says off."""
    given = os.environ.get(LOGS_VARIABLE)
    if given:
        return None if given == NO_LOGS else given
    if store_url.startswith(_SQLITE):
        # By whatever name it is opened, one file has one folder.
        return f"{sqlite_path(store_url).resolve()}-logs"
    return "memory://" if store_url.startswith("memory://") else "./holdfast-logs"


def _memory(_: str, _migrates: bool) -> Store:
    from holdfast.stores.memory import MemoryStore

    return MemoryStore()


def _sqlite(url: str, migrates: bool) -> Store:
    from holdfast.stores.sqlite import SQLiteStore

    return SQLiteStore(sqlite_path(url), migrates=migrates)


def _postgres(url: str, _migrates: bool) -> Store:
    require_postgres()
    from holdfast.stores.postgres import PostgresStore

    plain, options = split_options(url)
    return PostgresStore(
        plain,
        schema=options.get("schema", DEFAULT_SCHEMA),
        prepared_statements=_switch(options, "prepared"),
        listen=_switch(options, "listen"),
        pool_size=_pool_size(options),
    )


_MAKERS: Final[dict[str, Callable[[str, bool], Store]]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "postgresql": _postgres,
    "postgres": _postgres,
}


def migration_sql(url: str) -> str:
    """The statements that ``upgrade`` would run on a new database. PostgreSQL only."""
    require_postgres()
    from holdfast.stores.postgres import migrate

    return migrate.sql(schema=split_options(url)[1].get("schema", DEFAULT_SCHEMA))


async def upgrade(url: str, say: Callable[[str], None]) -> tuple[str, str]:
    """Bring PostgreSQL's tables to this version; the schema and the version that they are at."""
    require_postgres()
    from holdfast.stores.postgres import migrate

    plain, options = split_options(url)
    schema = options.get("schema", DEFAULT_SCHEMA)
    return schema, await migrate.upgrade(plain, schema=schema, say=say)


def require_postgres() -> None:
    if find_spec("asyncpg") is None:
        raise ConfigError("postgresql:// needs more packages; run: pip install 'holdfast[postgres]'")


def split_options(url: str) -> tuple[str, dict[str, str]]:
    """Our own options out of a PostgreSQL URL; what is left is the driver's."""
    parts = urlsplit(url)
    given = parse_qsl(parts.query, keep_blank_values=True)
    ours = {name: value for name, value in given if name in _OPTIONS}
    rest = urlencode([pair for pair in given if pair[0] not in ours])
    return urlunsplit(parts._replace(query=rest)), ours


def _pool_size(options: dict[str, str]) -> int:
    given = options.get("pool", str(limits.DEFAULT_POOL_CONNECTIONS))
    if not given.isdecimal() or not 1 <= int(given) <= limits.MAX_POOL_CONNECTIONS:
        raise ConfigError(
            f"pool={given} in the URL: write a number of connections from 1 to {limits.MAX_POOL_CONNECTIONS}"
        )
    return int(given)


def _switch(options: dict[str, str], name: str) -> bool:
    value = options.get(name, "on")
    if value not in _SWITCHES:
        raise ConfigError(f"{name}={value} in the URL: write {name}=on or {name}=off")
    return _SWITCHES[value]


def without_password(url: str) -> str:
    parts = urlsplit(url)
    if parts.password is None:
        return url
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username}:***@{host}"))
