"""An examination of the schema, in one snapshot; repairs in transactions of their own, beside whoever is at work.

- **One snapshot** (REPEATABLE READ, READ ONLY): every verb changes what must agree in one transaction, so what does not
  agree is wrong. The adding up of the tally empties a table, which a snapshot does not see as others do: so it is
  locked against that, and nothing else, before the snapshot is taken.
- **Twice**: a row may become visible long after the times in it. ``find_overdue`` says what stands past its bound, and
  leaves out what somebody's transaction holds; whoever asks looks again a minute later (``engine/doctor``).
- These statements walk over tables. They run with the planner's settings as the server has them, not with ours, which
  forbid that.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from uuid import UUID

from holdfast.core import limits
from holdfast.core.errors import HoldfastError
from holdfast.core.examination import EXAMPLES, Code, Examination, Examined, Found, Look, overdue_of
from holdfast.core.liveness import Owner, Standing, Timing
from holdfast.core.states import State
from holdfast.stores.postgres.database import PLANNER, Database
from holdfast.stores.postgres.rows import Row
from holdfast.stores.verbs.repair import BY_JOBS, REPAIR_BATCH

CHECKS: Final = (
    Code.IN_TWO_TABLES,
    Code.IN_NO_TABLE,
    Code.ROW_WITHOUT_JOB,
    Code.PENDING_WITHOUT_EDGE,
    Code.WAITS_FOR_NOTHING,
    Code.END_UNTOLD,
    Code.DEPENDENTS_FORGOTTEN,
    Code.OPEN_EDGE_LEFT,
    Code.EDGE_TO_NOTHING,
    Code.MARK_WITHOUT_JOB,
    Code.KEY_WITHOUT_JOB,
    Code.LABEL_WITHOUT_JOB,
)
"""Each is the part of its name in ``sql/doctor.sql``."""
STATEMENTS: Final = {
    Code.EDGE_TO_NOTHING: ("edges",),
    Code.KEY_WITHOUT_JOB: ("keys",),
    Code.LABEL_WITHOUT_JOB: ("tags", "notes", "attempts"),
}
SETTINGS: Final = "; ".join(
    (
        "SET LOCAL idle_in_transaction_session_timeout = '60s'",
        "SET LOCAL lock_timeout = '20s'",
        "SET LOCAL statement_timeout = 0",
        *(f"SET LOCAL {name} = on" for name in PLANNER if name.startswith("enable_")),
        "SET LOCAL plan_cache_mode = force_custom_plan",
    )
)
SNAPSHOT: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; " + SETTINGS
FIXED_SNAPSHOT: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ; " + SETTINGS
LONGEST_SECONDS: Final = 3600.0
"""A walk over very many jobs may take long; it holds nobody up but vacuum."""

SKEW_SECONDS: Final = 5.0
OLD_TRANSACTION_SECONDS: Final = 600.0
MANY_DEAD_ROWS: Final = 100_000
LARGE_INDEX_BYTES: Final = 128 * 1024 * 1024
BYTES_AN_ENTRY: Final = 500
"""Indexes of ours take 20 to 100 bytes a row."""
LANE_JOBS: Final = 100
"""How many jobs of each lane are looked at: those that a claim would take first."""
DRAWN_NUMBERS: Final = 1_000_000
REMOVED_ROWS: Final = 10_000
MAX_STEPS: Final = 1000
Answer = TypeVar("Answer")


async def in_snapshot(connection: Any, begin: str, work: Callable[[Any], Awaitable[Answer]]) -> Answer:
    """On a connection that ``Database.use`` has lent."""
    await connection.execute(begin)
    try:
        answer = await work(connection)
        await connection.execute("COMMIT")
    except Exception:
        if not connection.is_closed():
            await connection.execute("ROLLBACK")
        raise
    return answer


class PostgresDoctor:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = database.sql

    # what is wrong

    async def examine(self, examination: Examination) -> Examined:
        missing = await self._missing_privileges()
        if any(what.startswith("SELECT") for what in missing.examples):
            return Examined((missing,), (Code.PRIVILEGES_MISSING,), is_readable=False)
        lock = self._sql["doctor.hold_tally"]
        found = await self._database.use(
            lambda connection: in_snapshot(
                connection, f"{SNAPSHOT}; {lock}", lambda connection: self._examine(connection, examination)
            )
        )
        found = [missing, await self._skew(), *await self._warnings(), *found]
        checked = (
            Code.PRIVILEGES_MISSING,
            Code.CLOCK_SKEW,
            *_WARNINGS,
            *CHECKS,
            Code.TALLY_WRONG,
            Code.SEQUENCE_BEHIND,
        )
        return Examined(tuple(one for one in found if one.count), checked)

    async def _examine(self, connection: Any, examination: Examination) -> list[Found]:
        newest = None if examination.is_deep else examination.newest
        now = self._database.now or await connection.fetchval(self._sql["connection.now"])
        found = [await self._found(connection, code, newest, now) for code in CHECKS]
        rows = await _fetch(connection, self._sql["doctor.tally_wrong"], newest)
        wrong = [f"{row['queue']} {row['state']}: {row['tallied']} counted, {row['jobs']} there" for row in rows]
        (row,) = await _fetch(connection, self._sql["doctor.sequence"])
        behind = (f"at {row['at']}, given out: {row['highest']}",) if _is_behind(row) else ()
        return [
            *found,
            Found(Code.TALLY_WRONG, len(wrong), tuple(wrong[:EXAMPLES])),
            Found(Code.SEQUENCE_BEHIND, len(behind), behind),
        ]

    async def _found(self, connection: Any, code: Code, newest: int | None, now: datetime) -> Found:
        check = self._sql[f"doctor.{code}"]
        sql = self._sql["doctor.summed"].replace("{check}", check).replace("{examples}", str(EXAMPLES))
        (row,) = await _fetch(connection, sql, *_arguments(sql, newest, now))
        return Found(code, row["count"], tuple(row["examples"]))

    async def _missing_privileges(self) -> Found:
        rows = await self._database.fetch(self._sql["doctor_server.privileges"])
        return Found(Code.PRIVILEGES_MISSING, len(rows), tuple(row["what"] for row in rows))

    async def _skew(self) -> Found:
        before = datetime.now(UTC)
        (row,) = await self._database.fetch(self._sql["connection.now"])
        return skew(before, row["now"], datetime.now(UTC))

    async def _warnings(self) -> list[Found]:
        found: list[Found] = []
        for code, arguments in _WARNINGS.items():
            rows = await self._database.fetch(self._sql[f"doctor_server.{code}"], *arguments)
            found.append(Found(code, len(rows), tuple(row["what"] for row in rows)))
        return found

    # what is overdue

    async def find_overdue(self, timing: Timing) -> Look:
        look, parents = await self._database.use(
            lambda connection: in_snapshot(connection, SNAPSHOT, lambda connection: self._look(connection, timing))
        )
        held = await self._held({seq for one in look.overdue for seq in (one.seq, *parents.get(one.seq, ()))})
        free = [one for one in look.overdue if not held & {one.seq, *parents.get(one.seq, ())}]
        return Look(look.now, tuple(free))

    async def _look(self, connection: Any, timing: Timing) -> tuple[Look, dict[int, set[int]]]:
        now = self._database.now or await connection.fetchval(self._sql["connection.now"])
        late, timeout = timing.late_seconds, timing.worker_timeout_seconds
        arguments: dict[str, tuple[Any, ...]] = {
            "due": (),
            "lifetimes": (),
            "leases": (timeout,),
            "untold": (limits.EXAMINED_JOBS,),
            "passed_by": (LANE_JOBS, late, timeout),
        }
        rows: list[Row] = []
        for name, more in arguments.items():
            rows += await _fetch(connection, self._sql[f"doctor_overdue.{name}"], now, limits.MAX_OVERDUE_JOBS, *more)
        candidates = [_candidate(row) for row in rows]
        overdue = overdue_of(candidates, now=now, timing=timing, limit=limits.MAX_OVERDUE_JOBS)
        parents: dict[int, set[int]] = {}
        for row in rows:
            if "parent" in row and row["parent"] is not None:
                parents.setdefault(row["job"], set()).add(row["parent"])
        return Look(now, tuple(overdue)), parents

    async def _held(self, seqs: Collection[int]) -> set[int]:
        """Of these jobs those that somebody's transaction holds: whoever is bound to move them goes past them."""
        if not seqs:
            return set()
        try:
            _, held = await self._database.transact(lambda tx: tx.lock_free(seqs), may_wait=False)
        except HoldfastError:
            # Without the right to lock rows nobody can tell.
            return set()
        return held

    # repairs

    async def repair(self, code: Code, examination: Examination, seqs: Collection[int]) -> None:
        newest = None if examination.is_deep else examination.newest
        if code is Code.TALLY_WRONG:
            await self._correct_tally(newest)
        elif code is Code.SEQUENCE_BEHIND:
            await self._move_sequence_on()
        elif code in BY_JOBS:
            broken = seqs if code is Code.OVERDUE_SCHEDULED else await self._broken(code, newest)
            await self._repair_jobs(code, sorted(broken))
        else:
            for name in STATEMENTS[code]:
                await self._remove(self._sql[f"doctor_repair.{name}"])

    async def _broken(self, code: Code, newest: int | None) -> set[int]:
        sql = self._sql[f"doctor.{code}"]

        async def work(connection: Any) -> set[int]:
            return {row["seq"] for row in await _fetch(connection, sql, *_arguments(sql, newest, datetime.now(UTC)))}

        return await self._database.use(lambda connection: in_snapshot(connection, SNAPSHOT, work))

    async def _repair_jobs(self, code: Code, broken: Sequence[int]) -> None:
        for start in range(0, len(broken), REPAIR_BATCH):
            batch = broken[start : start + REPAIR_BATCH]
            await self._database.transact(lambda tx, batch=batch: BY_JOBS[code](tx, batch), may_wait=False)  # type: ignore[misc]

    async def _correct_tally(self, newest: int | None) -> None:
        lock = self._sql["doctor_repair.hold_tally"]
        sql = self._sql["doctor_repair.tally"].replace("{tally_wrong}", self._sql["doctor.tally_wrong"])
        await self._database.use(
            lambda connection: in_snapshot(
                connection, f"{FIXED_SNAPSHOT}; {lock}", lambda connection: _fetch(connection, sql, newest)
            )
        )

    async def _move_sequence_on(self) -> None:
        for _ in range(MAX_STEPS):
            (row,) = await self._database.fetch(self._sql["doctor.sequence"])
            if not _is_behind(row):
                return
            missing = min(row["highest"] - row["at"], DRAWN_NUMBERS)
            await self._database.fetch(self._sql["doctor_repair.sequence"], missing)

    async def _remove(self, sql: str) -> None:
        for _ in range(MAX_STEPS):
            removed = await self._database.use(
                lambda connection: in_snapshot(
                    connection, f"BEGIN; {SETTINGS}", lambda connection: _fetch(connection, sql, REMOVED_ROWS)
                )
            )
            if len(removed) < REMOVED_ROWS:
                return


_WARNINGS: Final[dict[Code, tuple[Any, ...]]] = {
    Code.OLD_TRANSACTION: (OLD_TRANSACTION_SECONDS,),
    Code.DEAD_ROWS: (MANY_DEAD_ROWS,),
    Code.INDEX_BLOAT: (LARGE_INDEX_BYTES, BYTES_AN_ENTRY),
}


def skew(before: datetime, asked: datetime, after: datetime) -> Found:
    """The database's time against this machine's before and after it was asked: the way there and back is no skew."""
    seconds = max((before - asked).total_seconds(), (asked - after).total_seconds())
    side = "ahead of" if asked < before else "behind"
    detail = f"this machine is {seconds:.1f} s {side} the database"
    return Found(Code.CLOCK_SKEW, int(seconds > SKEW_SECONDS), (), detail)


def _is_behind(row: Row) -> bool:
    """Not known where the role may not ask."""
    return row["at"] is not None and row["at"] < row["highest"]


def _arguments(sql: str, newest: int | None, now: datetime) -> tuple[Any, ...]:
    return (newest, now) if "$2" in sql else (newest,)


async def _fetch(connection: Any, sql: str, *arguments: Any) -> Sequence[Row]:
    rows: Sequence[Row] = await connection.fetch(sql, *arguments, timeout=LONGEST_SECONDS)
    return rows


def _candidate(row: Row) -> tuple[UUID, int, int, Standing]:
    given = dict(row.items())
    facts = {name: given[name] for name in _FACTS if name in given}
    standing = Standing(state=State(given["state"]), owner=Owner(given.get("owner", Owner.KNOWN)), **facts)
    return given["id"], given["job"], given["version"], standing


_FACTS: Final = (
    "since",
    "lifetime_ends_at",
    "due_at",
    "waits",
    "dependency_ended_at",
    "has_mark",
    "is_passed_by",
    "expires_at",
    "owner_seen_at",
)
