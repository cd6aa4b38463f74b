"""Breaks the fence on purpose: drops the token from the statement that completes jobs.

Only a process with $CHAOS_BROKEN_FENCE does this to itself, and only to prove that the checker would see it.
"""

import os
import re
from typing import Any, Final

FENCE_VARIABLE: Final = "CHAOS_BROKEN_FENCE"
_TOKEN_CONDITION: Final = re.compile(r"r\.token = (\(\$3::uuid\[\]\)\[width_bucket\(r\.job, \$2::bigint\[\]\)\])")


def break_if_asked() -> None:
    if os.environ.get(FENCE_VARIABLE):
        break_postgres()
        break_sqlite()


def break_postgres() -> None:
    from holdfast.stores.postgres import statements

    whole = statements.Statements.__getitem__

    def without_token(self: statements.Statements, name: str) -> str:
        text = whole(self, name)
        if name != "settle":
            return text
        broken, count = _TOKEN_CONDITION.subn(r"r.token IN (r.token, \1)", text)
        if count != 1:
            raise AssertionError("the token's condition in postgres/sql/settle.sql has changed: change this, too")
        return broken

    setattr(statements.Statements, "__getitem__", without_token)  # noqa: B010 - not an assignment mypy would allow


class AnyToken(bytes):
    """A token that is equal to every other."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, bytes)

    def __hash__(self) -> int:
        return super().__hash__()


def break_sqlite() -> None:
    """The store compares the tokens that ``settle.find`` returns: here each of them fits."""
    from holdfast.stores.sqlite.transaction import SQLiteTransaction

    whole = SQLiteTransaction.rows

    def with_any_token(self: SQLiteTransaction, name: str, *values: Any) -> list[Any]:
        rows = whole(self, name, *values)
        return [(row[0], AnyToken(row[1]), *row[2:]) for row in rows] if name == "settle.find" else rows

    setattr(SQLiteTransaction, "rows", with_any_token)  # noqa: B010 - as above
