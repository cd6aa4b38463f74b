"""One table says what PostgreSQL's errors mean for the caller, and it is complete."""

import asyncpg
import psycopg
import pytest
import sqlalchemy.exc

from holdfast.core.errors import ConfigError, HoldfastError, SchemaMissing, Unavailable, UsageError
from holdfast.stores.postgres import PostgresStore, migrate
from holdfast.stores.postgres.errors import MEANINGS, UNEXPECTED, meaning, sqlstate_of, translate, translated

DOCUMENTED = (Unavailable, ConfigError, SchemaMissing, UsageError)
ASYNCPG = sorted(
    {
        (str(getattr(kind, "sqlstate", None)), name)
        for name, kind in vars(asyncpg.exceptions).items()
        if isinstance(kind, type) and issubclass(kind, BaseException) and getattr(kind, "sqlstate", None)
    }
)


@pytest.mark.parametrize(("sqlstate", "name"), ASYNCPG)
def test_every_code_of_the_driver_has_a_meaning(sqlstate: str, name: str) -> None:
    kind, advice = meaning(sqlstate)
    assert issubclass(kind, HoldfastError)
    assert advice
    if (kind, advice) != UNEXPECTED:
        assert kind in DOCUMENTED


@pytest.mark.parametrize(("sqlstate", "name"), ASYNCPG)
def test_what_passes_by_itself_may_be_repeated_and_what_does_not_may_not(sqlstate: str, name: str) -> None:
    """By class: connection, resources, operator, system, internal, rollback; the rest is not cured by trying again."""
    is_passing = sqlstate[:2] in {"08", "40", "53", "57", "58", "XX"} or sqlstate in {
        "0A000",
        "23505",
        "25006",
        "55P03",
    }
    assert (meaning(sqlstate)[0] is Unavailable) == is_passing


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (asyncpg.InvalidPasswordError("x"), ConfigError),
        (asyncpg.InvalidAuthorizationSpecificationError("x"), ConfigError),
        (asyncpg.InvalidCatalogNameError("x"), ConfigError),
        (asyncpg.InsufficientPrivilegeError("x"), ConfigError),
        (asyncpg.UndefinedTableError("x"), SchemaMissing),
        (asyncpg.InvalidSchemaNameError("x"), SchemaMissing),
        (asyncpg.ReadOnlySQLTransactionError("x"), Unavailable),
        (asyncpg.TooManyConnectionsError("x"), Unavailable),
        (asyncpg.AdminShutdownError("x"), Unavailable),
        (asyncpg.CannotConnectNowError("x"), Unavailable),
        (asyncpg.QueryCanceledError("x"), Unavailable),
        (asyncpg.DeadlockDetectedError("x"), Unavailable),
        (asyncpg.LockNotAvailableError("x"), Unavailable),
        (asyncpg.DiskFullError("x"), Unavailable),
        (asyncpg.ConnectionDoesNotExistError("x"), Unavailable),
        (asyncpg.InterfaceError("connection is closed"), Unavailable),
        (asyncpg.InFailedSQLTransactionError("x"), UsageError),
        (OSError("connection refused"), Unavailable),
        (ConnectionResetError(), Unavailable),
        (TimeoutError(), Unavailable),
        (EOFError(), Unavailable),
        (psycopg.OperationalError("server closed the connection"), Unavailable),
        (psycopg.InterfaceError("the connection is closed"), Unavailable),
        (psycopg.errors.AdminShutdown("x"), Unavailable),
        (sqlalchemy.exc.OperationalError("SELECT 1", None, psycopg.errors.AdminShutdown("x")), Unavailable),
        (sqlalchemy.exc.OperationalError("SELECT 1", None, psycopg.OperationalError("lost")), Unavailable),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else type(value).__qualname__,
)
def test_an_error_is_translated(error: Exception, kind: type[HoldfastError]) -> None:
    translation = translate(error)
    assert type(translation) is kind
    assert len(str(translation).splitlines()) == 1
    with pytest.raises(kind) as raised, translated():
        raise error
    assert raised.value.__cause__ is error


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), psycopg.ProgrammingError("x"), AssertionError()])
def test_what_is_not_the_databases_goes_through(error: Exception) -> None:
    assert translate(error) is None
    with pytest.raises(type(error)) as raised, translated():
        raise error
    assert raised.value is error


def test_an_unknown_code_is_ours_to_hear_of() -> None:
    error = asyncpg.UndefinedColumnError("column x does not exist")
    translation = translate(error)
    assert type(translation) is HoldfastError
    assert "report" in str(translation)
    assert sqlstate_of(error) == "42703"


def test_every_meaning_says_what_to_do() -> None:
    for sqlstate, (kind, advice) in MEANINGS.items():
        assert len(sqlstate) in (2, 5)
        assert ("repeat the call" in advice) == (kind is Unavailable), advice


@pytest.mark.parametrize(
    "url", ["postgresql://localhost:port/app", "postgresql://localhost/app?sslmode=nonsense", "nonsense://x"]
)
async def test_a_url_that_the_driver_refuses_is_a_matter_of_configuration(url: str) -> None:
    with pytest.raises(ConfigError):
        await PostgresStore(url).open()
    with pytest.raises(ConfigError):
        await migrate.upgrade(url)
