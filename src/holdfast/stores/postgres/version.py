"""Which schema this code speaks, and how a database says which one it has.

Apart from ``migrate``: a store asks this at every start.
"""

from typing import Any, Final

from holdfast.core.errors import SchemaMismatch
from holdfast.stores.migrations import Migration, Schema, migrations_of, newest

VERSION_TABLE: Final = "schema_version"


def migrations() -> tuple[Migration, ...]:
    assert __package__ is not None
    return migrations_of(__package__)


def own() -> Schema:
    return newest(migrations())


def head() -> str:
    """The number of the newest migration, with which the name of its file begins."""
    return written(own().number)


def written(number: int) -> str:
    return f"{number:04}"


def found_in(rows: Any) -> Schema:
    """What ``migrate.version`` has read.

    A database that does not say which programs go on beside it takes those of its own number.
    """
    if not rows:
        return Schema(0, 0)
    number = int(rows[0]["version_num"])
    since = rows[0]["compatible_since"]
    return Schema(number, int(since) if since is not None else number)


def require_suitable(found: Schema, *, schema: str) -> None:
    """SchemaMismatch unless this program may work on it."""
    program = own().number
    if found.suits(program):
        return
    advice = "run: holdfast migrate" if found.number < program else "upgrade this program"
    at = written(found.number) if found.number else "nothing"
    raise SchemaMismatch(f"schema {schema!r} is at {at}, this program speaks {written(program)}; {advice}")
