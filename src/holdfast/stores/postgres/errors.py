"""The driver's errors, and what they mean for the caller: one table, by SQLSTATE.

A code is looked up whole, then by its class (the first two characters). Both drivers' errors carry ``sqlstate``;
an error without one comes from the connection itself.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from holdfast.core.errors import ConfigError, HoldfastError, SchemaMissing, Unavailable, UsageError

MEANINGS: Final[dict[str, tuple[type[HoldfastError], str]]] = {
    "0A000": (Unavailable, "the tables were upgraded since this statement was prepared; repeat the call"),
    "08": (Unavailable, "the connection to PostgreSQL was lost; repeat the call"),
    "23505": (Unavailable, "a simultaneous repeat was first; repeat the call"),
    "25006": (Unavailable, "PostgreSQL is read-only here (a standby, or a failover in progress); repeat the call"),
    "25P02": (UsageError, "the transaction has failed before this call; roll it back and begin a new one"),
    "28": (ConfigError, "PostgreSQL refused the user; check the name and password in the URL"),
    "3D": (ConfigError, "no such database; check its name in the URL, or create it"),
    "3F": (SchemaMissing, "the schema is not there; run: holdfast migrate"),
    "40": (Unavailable, "PostgreSQL ended the transaction to resolve a conflict; repeat the call"),
    "42P01": (SchemaMissing, "Holdfast's tables are not there; run: holdfast migrate"),
    "42501": (ConfigError, "the database user may not do this; grant it the rights on Holdfast's schema"),
    "53": (Unavailable, "PostgreSQL is out of a resource (connections, memory or disk); free some and repeat the call"),
    "55P03": (Unavailable, "a row stayed locked for too long; repeat the call"),
    "57": (Unavailable, "PostgreSQL is shutting down, starting up, or cancelled the statement; repeat the call"),
    "58": (Unavailable, "PostgreSQL met a system error; see its log, then repeat the call"),
    "XX": (Unavailable, "PostgreSQL met an internal error; see its log, then repeat the call"),
}
UNEXPECTED: Final = (HoldfastError, "PostgreSQL refused a statement of Holdfast's own; please report this")

UNIQUE_VIOLATION: Final = "23505"
READ_ONLY: Final = "25006"
LOCK_NOT_AVAILABLE: Final = "55P03"
DEADLOCK: Final = "40P01"
STALE_PLAN: Final = "0A000"
"""A table has another column than when the statement was prepared. By then the driver has forgotten it."""
RETRIED: Final = ("40001", DEADLOCK, UNIQUE_VIOLATION, STALE_PLAN)
"""Serialisation failure, deadlock, a unique key that a simultaneous repeat has just taken, a migration: run again."""

# Without a code an error is the driver's own. asyncpg's all come from the connection; psycopg has others.
CONNECTION_ERRORS: Final = frozenset({"psycopg.OperationalError", "psycopg.InterfaceError"})


def meaning(sqlstate: str) -> tuple[type[HoldfastError], str]:
    return MEANINGS.get(sqlstate) or MEANINGS.get(sqlstate[:2]) or UNEXPECTED


def sqlstate_of(error: BaseException) -> str | None:
    return getattr(_of_the_driver(error), "sqlstate", None)


def _of_the_driver(error: BaseException) -> BaseException:
    """What SQLAlchemy has wrapped, once for every driver and for an asynchronous one twice."""
    wrapped: BaseException = getattr(error, "orig", None) or error
    if type(wrapped).__module__.startswith("sqlalchemy.") and wrapped.__cause__ is not None:
        return wrapped.__cause__
    return wrapped


@contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except HoldfastError:
        raise
    except Exception as error:
        translation = translate(error)
        if translation is None:
            raise
        raise translation from error


def translate(error: Exception) -> HoldfastError | None:
    """None where the error is none of the database's."""
    origin = _of_the_driver(error)
    sqlstate = sqlstate_of(origin)
    said = " ".join(str(origin).split()) or type(origin).__name__
    if sqlstate is not None:
        kind, advice = meaning(sqlstate)
        return kind(f"{advice} ({sqlstate}: {said})")
    if isinstance(origin, OSError | TimeoutError | EOFError):
        return Unavailable(f"PostgreSQL does not answer ({said}); repeat the call")
    names = {f"{base.__module__}.{base.__qualname__}" for base in type(origin).__mro__}
    if any(name.startswith("asyncpg.") for name in names) or names & CONNECTION_ERRORS:
        return Unavailable(f"the connection to PostgreSQL was lost ({said}); repeat the call")
    return None
