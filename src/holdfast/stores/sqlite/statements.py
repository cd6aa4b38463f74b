"""The statements of the file, and how values reach them.

SQLite has no statement that writes several tables, so a verb that is one statement in PostgreSQL is a few here; they
stay together in the file that has the verb's name.
"""

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib.resources.abc import Traversable
from typing import Any, Final

from holdfast.core.priority import Priority
from holdfast.stores import statements

VALUES_A_STATEMENT: Final = 256
"""In lists of bytes, which are bound one by one."""
_NUMBERS: Final = tuple(map(str, range(1, 1001)))
FIRST_PLACE: Final = 6
"""The parameter of ``claim.find`` that is the place after which to start in the first priority."""


def _lanes() -> dict[str, str]:
    """Of every priority the same part, one after the other."""
    parts = statements.fragments_of(__package__)
    lanes = [
        parts["lane"].replace("{priority}", str(int(one))).replace("{after}", str(FIRST_PLACE + n))
        for n, one in enumerate(Priority)
    ]
    lefts = [parts["left"].replace("{priority}", str(int(one))) for one in Priority]
    return {"lanes": " UNION ALL ".join(lanes), "lefts": ", ".join(lefts)}


SQL: Final = statements.statements_of(__package__, _lanes())
"""``SQL["claim.find"]`` is the text of the part ``find`` in ``sql/claim.sql``."""


def fill(text: str) -> str:
    """What comes from the transition table is filled in here."""
    return statements.fill(text, {})


def sql_files(folder: str) -> list[Traversable]:
    """The .sql files of one of this package's folders, in the order of their names."""
    return statements.sql_files(__package__, folder)


@cache
def with_marks(name: str, count: int, *, after: int) -> str:
    """A statement with a list of ``count`` values: JSON cannot carry the bytes that ids and tokens are.

    They stand after ``after`` others.
    """
    return SQL[name].replace("{marks}", ", ".join(f"?{number}" for number in range(after + 1, after + count + 1)))


def bound(sql: str, values: Sequence[Any]) -> Sequence[Any] | Mapping[str, Any]:
    """Values for a statement. To Python ``?1`` is a name, and from 3.14 on it takes names from a mapping only."""
    return dict(zip(_NUMBERS, values, strict=False)) if "?1" in sql else values


def execute(cursor: sqlite3.Cursor, name: str, *values: Any) -> sqlite3.Cursor:
    sql = SQL[name]
    return cursor.execute(sql, bound(sql, values))


def rows_of_bytes(cursor: sqlite3.Cursor, name: str, values: Collection[bytes], *first: Any) -> list[tuple[Any, ...]]:
    """A statement with a list of bytes, in as many steps as its bound needs."""
    rest = list(values)
    found: list[tuple[Any, ...]] = []
    for start in range(0, len(rest), VALUES_A_STATEMENT):
        part = rest[start : start + VALUES_A_STATEMENT]
        # Padded to a power of two, so that few texts are ever prepared.
        size = 1 << (len(part) - 1).bit_length()
        sql = with_marks(name, size, after=len(first))
        found += cursor.execute(sql, bound(sql, [*first, *part, *[None] * (size - len(part))]))
    return found
