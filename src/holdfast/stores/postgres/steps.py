"""What a migration consists of, read from its file.

A file is one transaction, the new number included. Where a table may be large, or must not be locked for long, it has
parts instead, which are run in their order, and the number is set after the last:

- ``-- [together]``: statements in one transaction. Locks one table at most, and never for as long as something is read.
- ``-- [alone]``: each statement outside a transaction: CREATE INDEX CONCURRENTLY and its like.
- ``-- [in batches]``: one statement that changes some of the rows that are left, each time in a transaction of its own,
  until no row is left.

A file with parts that was interrupted begins again with its first part. So everything in it can be repeated: it says
IF NOT EXISTS or OR REPLACE.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from holdfast.stores.migrations import Migration
from holdfast.stores.postgres.statements import Statements

_PART: Final = re.compile(r"^-- \[([\w ]+)\]$", re.MULTILINE)
_STATEMENT_END: Final = re.compile(r";\n(?=(?:[^$]*\$\$[^$]*\$\$)*[^$]*\Z)")
"""Not within the body of a function, which stands between two $$."""
_COMMENT: Final = re.compile(r"^\s*--.*$", re.MULTILINE)
_CHANGED: Final = re.compile(r"^ALTER TABLE (\S+)", re.MULTILINE)
_INDEX: Final = re.compile(r"CREATE (?:UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS (\w+)")


class Kind(StrEnum):
    TOGETHER = "together"
    ALONE = "alone"
    BATCHES = "in batches"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    kind: Kind
    statements: tuple[str, ...] = ()
    completes: Migration | None = None
    """Whose number is set in the same transaction."""

    @property
    def changed_tables(self) -> list[str]:
        found = (table for statement in self.statements for table in _CHANGED.findall(statement))
        return list(dict.fromkeys(found))


def steps_of(migration: Migration, statements: Statements) -> Iterator[Step]:
    """Filled in for one schema."""
    first, *parts = _PART.split(statements.fill(migration.text))
    if not parts:
        yield Step(kind=Kind.TOGETHER, statements=_statements(first), completes=migration)
        return
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        yield Step(kind=Kind(name), statements=_statements(text))
    yield Step(kind=Kind.TOGETHER, completes=migration)


def at_once(migrations: Sequence[Migration], statements: Statements) -> list[str]:
    """All statements for a schema without tables: nobody is held up there, so they fit into one transaction."""
    steps = (step for migration in migrations for step in steps_of(migration, statements))
    return [statement.replace(" CONCURRENTLY ", " ") for step in steps for statement in step.statements]


def index_made_by(statement: str) -> str | None:
    """The index that is left behind, and not valid, where this statement was interrupted."""
    found = _INDEX.search(statement)
    return found[1] if found else None


def _statements(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in _STATEMENT_END.split(text) if _COMMENT.sub("", one).strip())
