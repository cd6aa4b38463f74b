"""tick: one statement asks whether there is anything to do; only the parts that have work run, each by itself.

Where the searches of the parts start, and which of them run although the statement found nothing, is remembered from
tick to tick (``sweeps``). Beside the parts, the counts are added up now and then.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any
from uuid import UUID

from holdfast.core import limits
from holdfast.core.commands import Tick, TickReport
from holdfast.stores.postgres.database import Database
from holdfast.stores.postgres.presence import Presence
from holdfast.stores.postgres.rows import Row
from holdfast.stores.postgres.sweeps import Searches
from holdfast.stores.postgres.transaction import PostgresTransaction
from holdfast.stores.transaction import Transaction
from holdfast.stores.verbs import tick as verbs

Part = Callable[[Transaction, Tick], Coroutine[Any, Any, TickReport]]


async def tick(database: Database, tick: Tick, presence: Presence | None) -> TickReport:
    asked = database.sweeps.begin()
    (row,) = await database.fetch(
        database.sql["tick.ask"],
        database.now,
        tick.worker_timeout_seconds,
        asked.due.start,
        asked.expired.start,
        tick.completed_retention_seconds,
        tick.dead_retention_seconds,
        asked.done_from[0],
        limits.WORKER_RETENTION_SECONDS,
        limits.CRON_RETENTION_SECONDS,
        database.sweeps.ticked_at,
        asked.dead_from[0],
        database.sweeps.marks.begin()[0],
    )
    if presence is not None:
        presence.note_attended(row["attended"])
    searches = _note_answer(database, asked, row)
    reports = await _run(database, _parts(database, asked, searches, row), tick, searches)
    await _compact_tally(database, row["tally_bytes"])
    return verbs.total(reports, quiet_seconds=row["quiet_seconds"])


def _note_answer(database: Database, asked: Searches, row: Row) -> Searches:
    """What was found nowhere need not be searched for; the others are searched for from where this says."""
    sweeps = database.sweeps
    sweeps.ticked_at = row["now"]
    searches = sweeps.put_right(asked, row["now"])
    if not row["due"] and searches.due is asked.due:
        sweeps.due.finished(asked.due, row["now"])
    if not row["expired"] and searches.expired is asked.expired:
        sweeps.expired.finished(asked.expired, row["now"])
    sweeps.marks.note(row["next_number"])
    if not row["marks"]:
        sweeps.marks.finished()
    return searches


def _parts(database: Database, asked: Searches, searches: Searches, row: Row) -> list[Part]:
    owed = "marks" if database.sweeps.marks.owed(limit=1) else None
    return [
        part
        for part in verbs.PARTS
        if row[part.__name__] or part.__name__ == owed or searches.asks_for(part.__name__, asked)
    ]


async def _run(database: Database, parts: Sequence[Part], tick: Tick, searches: Searches) -> list[TickReport]:
    """All of them, whatever becomes of the ones before."""
    reports: list[TickReport] = []
    problems: list[Exception] = []
    for part in parts:
        try:
            # Never waits for a job: one that somebody holds is the business of a later tick.
            reports.append(
                await _tell_marks(database, tick)
                if part is verbs.marks
                else await database.transact(_bound(part, tick, searches), may_wait=False)
            )
        except Exception as problem:
            problems.append(problem)
    if problems:
        raise problems[0]
    return reports


def _bound(
    part: Part, tick: Tick, searches: Searches
) -> Callable[[PostgresTransaction], Coroutine[Any, Any, TickReport]]:
    async def verb(tx: PostgresTransaction) -> TickReport:
        tx.searches = searches
        return await part(tx, tick)

    return verb


async def _tell_marks(database: Database, tick: Tick) -> TickReport:
    marks = database.sweeps.marks
    again = marks.owed(limit=tick.batch)
    found = await database.transact(lambda tx: tx.find_marks(limit=tick.batch))
    marked = {*again, *found}
    told = await database.tell(marked, limit=max(tick.batch, len(marked)))
    marks.told(marked - told.held - told.left)
    marks.put_off(marked & (told.held | told.left))
    return TickReport(propagated=told.done, has_more=marks.is_under_way or (told.done > 0 and len(again) == tick.batch))


async def _compact_tally(database: Database, size_bytes: int) -> None:
    tally = database.sweeps.tally
    if not tally.is_worth_it(size_bytes):
        return
    (row,) = await database.fetch(database.sql["tick.tally_rows"])
    if row["rows"] < 2 * row["sums"]:
        tally.is_all_needed(size_bytes)
        return
    (answer,) = await database.fetch(database.sql["tick.compact_tally"], tally.wait_milliseconds)
    tally.tried(is_done=answer["is_done"])


async def reclaim(database: Database, tick: Tick, gone: Sequence[UUID]) -> None:
    """The leases of workers whose processes have died."""
    report = TickReport(has_more=True)
    while report.has_more:
        report = await database.transact(lambda tx: verbs.gone_workers(tx, tick, gone), may_wait=False)
