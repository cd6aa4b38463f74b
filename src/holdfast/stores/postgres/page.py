"""A page of jobs by filter, for read_page and replay_where."""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from holdfast.core.commands import EQUAL, Filter
from holdfast.core.states import WAITING, State
from holdfast.stores.postgres.connections import Executor
from holdfast.stores.postgres.statements import Statements

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

    async def run(self, executor: Executor, statements: Statements) -> tuple[list[UUID], int | None]:
        """IDs; and where to go on, None exactly when no candidate is left."""
        if self.states is not None and not self.states:
            return [], None
        start = _ABOVE_ALL if self.cursor is None else self.cursor
        values = self._values()
        # Without conditions every candidate is a match, and a page's worth of them is enough.
        is_filtered = any(value is not None for value in values)
        budget = self.budget if is_filtered else min(self.limit, self.budget)
        sql = statements["page.matching"].replace("{candidates}", _candidates(self.states, statements))
        rows = await executor.fetch(sql, start, budget + 1, self.limit + 1, *values)
        total, budget_seq = rows[0]["total"], rows[0]["budget_seq"]
        found = [row for row in rows if row["seq"] is not None]
        if len(found) >= self.limit:
            last = found[self.limit - 1]
            return [row["id"] for row in found[: self.limit]], last["seq"] if last["n"] < total else None
        return [row["id"] for row in found], budget_seq if total > budget else None

    def _values(self) -> tuple[Any, ...]:
        where = self.where
        name, value = where.tag or (None, None)
        return (name, value, where.created_from, where.created_until, *(getattr(where, name) for name in EQUAL))


def _candidates(states: frozenset[State] | None, statements: Statements) -> str:
    """Jobs (of the states asked for) by falling seq, from the index of the table they stand in."""
    if states is None:
        return statements["page.any"]
    parts = [_candidates_in(state, statements) for state in State if state in states]
    return statements["page.merged"].replace("{parts}", " UNION ALL ".join(parts))


def _candidates_in(state: State, statements: Statements) -> str:
    if state in (State.SCHEDULED, State.RUNNING):
        return statements[f"page.{state.lower()}"]
    return statements["page.waiting" if state in WAITING else "page.ended"].replace("{state}", state)
