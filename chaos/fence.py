"""Breaks what keeps zombies out, on purpose and only in a process that is told to by its environment.

$CHAOS_DEAF: the worker does not hear which leases it has lost, so only the fence is left. $CHAOS_BROKEN_FENCE: the
token is dropped from the statement that completes jobs. The first alone must change nothing; both must be seen.
"""

import os
import re
from typing import Any, Final

FENCE_VARIABLE: Final = "CHAOS_BROKEN_FENCE"
DEAF_VARIABLE: Final = "CHAOS_DEAF"
_SQLITE_CONDITION: Final = re.compile(r"r\.token = (substr\(\?2, 16 \* e\.key \+ 1, 16\))")
_TOKEN_CONDITION: Final = re.compile(r"r\.token = (\(\$3::uuid\[\]\)\[width_bucket\(r\.job, \$2::bigint\[\]\)\])")


def break_if_asked() -> None:
    if os.environ.get(FENCE_VARIABLE):
        break_postgres()
        break_sqlite()
    if os.environ.get(DEAF_VARIABLE):
        deafen()


def deafen() -> None:
    from holdfast.worker.slots import Slots

    def heed(_: Slots, answer: Any) -> None:
        """Whatever the store says of our leases, go on."""

    assert callable(Slots.heed)
    setattr(Slots, "heed", heed)  # noqa: B010 - not an assignment mypy would allow


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

    setattr(statements.Statements, "__getitem__", without_token)  # noqa: B010 - as above


def break_sqlite() -> None:
    from holdfast.stores.sqlite.statements import SQL

    for name in ("settle.count", "settle.find"):
        SQL[name], count = _SQLITE_CONDITION.subn(r"r.token IN (r.token, \1)", SQL[name])
        if count != 1:
            raise AssertionError("the token's condition in sqlite/sql/settle.sql has changed: change this, too")
