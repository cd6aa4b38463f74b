"""A page of jobs by filter, for read_page and replay_where."""

from collections.abc import Collection
from dataclasses import dataclass
from sqlite3 import Cursor
from typing import Any, Final

from holdfast.core.commands import EQUAL, Filter
from holdfast.core.states import WAITING, State
from holdfast.stores.sqlite.rows import Row, to_time
from holdfast.stores.sqlite.statements import SQL, bound

_ABOVE_ALL: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A page of jobs: those of ``states`` below the cursor, newest first, that match the rest of the filter.

    Looks at no more than ``budget`` of them. Every store finds the same page, so the same cursor.
    """

    where: Filter
    states: frozenset[State] | None
    limit: int
    cursor: int | None
    budget: int

    def run(self, cursor: Cursor) -> tuple[list[Row], int | None]:
        """Rows of (seq, id); and where to go on, None exactly when no candidate is left."""
        if self.states is not None and not self.states:
            return [], None
        start = _ABOVE_ALL if self.cursor is None else self.cursor
        found = self._execute(cursor, "page.matching", start, self.budget, self.limit, *self._values()).fetchall()
        if len(found) == self.limit:
            last = found[-1][0]
        else:
            looked_at, last = self._execute(cursor, "page.looked_at", start, self.budget).fetchone()
            if looked_at < self.budget:
                return found, None
        (has_more,) = self._execute(cursor, "page.more", last).fetchone()
        return found, last if has_more else None

    def _execute(self, cursor: Cursor, name: str, *values: Any) -> Cursor:
        sql = self._sql(name)
        return cursor.execute(sql, bound(sql, values))

    def _sql(self, name: str) -> str:
        return SQL[name].replace("{candidates}", " UNION ALL ".join(_candidates(self.states)))

    def _values(self) -> tuple[Any, ...]:
        where = self.where
        name, value = where.tag or (None, None)
        times = (to_time(where.created_from), to_time(where.created_until))
        return (name, value, *times, *(getattr(where, name) for name in EQUAL))


def _candidates(states: Collection[State] | None) -> list[str]:
    if states is None:
        return [SQL["page.any"]]
    return [_candidates_in(state) for state in State if state in states]


def _candidates_in(state: State) -> str:
    if state in (State.SCHEDULED, State.RUNNING, State.COMPLETED):
        return SQL[f"page.{state.lower()}"]
    return SQL["page.waiting" if state in WAITING else "page.ended"].replace("{state}", state.value)
