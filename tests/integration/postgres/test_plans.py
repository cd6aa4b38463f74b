"""Whatever the statistics say, statements look rows up by index: their cost does not grow with what is stored.

The store is watched while it does everything it can do on a database with a backlog, and the plan of every statement
it sent is then looked at: as the planner makes it for these very parameters and for any (generic), on our own
connections and behind a pooler, where the planner's settings are the user's.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg import sql

from holdfast.stores.postgres import PostgresStore, migrate
from holdfast.stores.postgres.database import PLANNER
from holdfast.testing import ManualClock
from tests.conftest import NewDatabase
from tests.integration.postgres.backlog import FILL, FILLED, keep_statistics_as_they_are
from tests.integration.postgres.workload import read_lists, use_every_verb

Node = dict[str, Any]
Connection = psycopg.Connection[Any]

# By design these walk over more than they answer with: lists over up to a budget of jobs, the telling of dependents
# over the edges of the jobs that ended.
SORTED = ("candidates AS MATERIALIZED", "AND is_open ORDER BY parent, child")
WALKED = "running"
"""As many rows as there are slots: walked over by what is rare."""
FETCHED_ROWS = 30_000
"""More than the workload needs of any table, less than one walk over one of the large ones."""


@dataclass(frozen=True, slots=True)
class Statement:
    text: str
    begin: str | None
    """How the transaction around it began; None where it is one by itself."""

    def __str__(self) -> str:
        return re.sub(r"\s+", " ", re.sub(r"--.*\n", "", self.text))[:120]


@dataclass
class Recorder:
    seen: dict[Statement, tuple[Any, ...]] = field(default_factory=dict)

    def watch(self, connection: asyncpg.Connection) -> None:
        begin: list[str] = []

        def note(query: Any) -> None:
            if query.query.startswith("BEGIN; "):
                begin.append(query.query)
            elif query.query in ("COMMIT", "ROLLBACK"):
                begin.clear()
            elif re.search(r"(?im)^\s*(SELECT|WITH|INSERT|UPDATE|DELETE)\b", query.query):
                self.seen.setdefault(Statement(query.query, begin[-1] if begin else None), query.args)

        connection.add_query_logger(note)


class WatchedStore(PostgresStore):
    def __init__(self, recorder: Recorder, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        connect = self._database.connect

        async def connect_watched() -> asyncpg.Connection:
            connection = await connect()
            recorder.watch(connection)
            return connection

        self._database.connect = connect_watched  # type: ignore[method-assign]


async def watch(url: str, *, is_pooled: bool, with_lists: bool) -> dict[Statement, tuple[Any, ...]]:
    recorder = Recorder()
    clock = ManualClock(datetime.now(UTC))
    store = WatchedStore(recorder, url, clock=clock, listen=False, prepared_statements=not is_pooled)
    await store.open()
    await (read_lists(store) if with_lists else use_every_verb(store, clock))
    await store.close()
    return recorder.seen


# plans


def nodes_of(plan: Node, path: tuple[Node, ...] = ()) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    """Every node with those above it."""
    yield plan, path
    for child in plan.get("Plans", ()):
        yield from nodes_of(child, (*path, plan))


def problem_of(statement: Statement, node: Node, path: tuple[Node, ...]) -> str | None:
    if node.get("Relation Name") not in FILLED or node["Node Type"] == "ModifyTable":
        return None
    if node["Relation Name"] == WALKED and not {"Index Cond", "Recheck Cond", "TID Cond"} & node.keys():
        return None
    if node["Node Type"] == "Seq Scan":
        return "reads the whole table"
    limits = [index for index, above in enumerate(path) if above["Node Type"] == "Limit"]
    conditions = {"Index Cond", "Recheck Cond", "TID Cond"} & node.keys()
    if not conditions and not limits:
        return "reads the whole index"
    may_sort = any(part in statement.text for part in SORTED)
    if limits and not may_sort and any(above["Node Type"] == "Sort" for above in path[limits[-1] :]):
        return "reads and sorts everything that matches before the first row"
    return None


def problems_of(connection: Connection, statement: Statement, arguments: tuple[Any, ...]) -> set[str]:
    connection.execute("DEALLOCATE ALL")
    if statement.begin is not None:
        connection.execute(statement.begin.encode())
    connection.execute(b"PREPARE statement AS " + statement.text.encode())
    given = ", ".join(sql.Literal(argument).as_string(connection) for argument in arguments)
    execute = f"EXECUTE statement ({given})" if arguments else "EXECUTE statement"
    answer: Any = connection.execute(b"EXPLAIN (FORMAT JSON) " + execute.encode()).fetchone()
    if statement.begin is not None:
        connection.execute("ROLLBACK")
    found = ((node, problem_of(statement, node, path)) for node, path in nodes_of(answer[0][0]["Plan"]))
    return {f"{node['Relation Name']}: {problem} by {statement}" for node, problem in found if problem is not None}


def all_problems(
    url: str, statements: Mapping[Statement, tuple[Any, ...]], *, plans: str, is_pooled: bool = False
) -> set[str]:
    settings = {**({} if is_pooled else PLANNER), "plan_cache_mode": plans}
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        for name, value in settings.items():
            connection.execute(f"SET {name} = {value}".encode())
        return {
            problem
            for statement, arguments in statements.items()
            for problem in problems_of(connection, statement, arguments)
        }


# the databases


async def migrated(url: str) -> str:
    await migrate.upgrade(url)
    with psycopg.connect(url, autocommit=True) as connection:
        keep_statistics_as_they_are(connection)
    return url


def run(url: str, statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statements.encode())


# What VACUUM and ANALYZE leave in the catalogue when a table is empty. Written there when it no longer is: the same as
# filling it once more after a VACUUM, and ten seconds faster.
AS_IF_VACUUMED_WHILE_EMPTY = """
    UPDATE pg_class SET reltuples = 0, relpages = CASE relkind WHEN 'i' THEN 1 ELSE 0 END, relallvisible = 0
    WHERE relnamespace = 'holdfast'::regnamespace AND relkind IN ('r', 'i')
"""

# And what ANALYZE leaves at a moment when nearly all rows are dead ones that are not yet vacuumed.
AS_IF_ANALYSED_WHILE_BLOATED = """
    UPDATE pg_class SET reltuples = 3, relpages = greatest(1, pg_relation_size(oid) / 8192)
    WHERE relnamespace = 'holdfast'::regnamespace AND relkind IN ('r', 'i')
"""


def rows_read(url: str) -> dict[str, tuple[int, int]]:
    """Of each large table: rows read by walking over it, and rows fetched by index."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT relname, seq_tup_read, idx_tup_fetch FROM pg_stat_user_tables WHERE schemaname = 'holdfast'"
        ).fetchall()
    return {name: (walked, fetched) for name, walked, fetched in rows if name in FILLED}


async def test_every_statement_runs_on_index_lookups_whatever_the_statistics_say(new_database: NewDatabase) -> None:
    url = await migrated(new_database())
    run(url, FILL)
    before = rows_read(url)
    statements = {is_pooled: await watch(url, is_pooled=is_pooled, with_lists=False) for is_pooled in (False, True)}
    after = rows_read(url)
    lists = await watch(url, is_pooled=False, with_lists=True)
    assert len(statements[False]) > 50, "the workload is not what it was"
    walked = {name: rows - before[name][0] for name, (rows, _) in after.items() if name != WALKED}
    assert not any(walked.values()), walked
    fetched = {name: count - before[name][1] for name, (_, count) in after.items() if name != WALKED}
    assert max(fetched.values()) < FETCHED_ROWS, fetched
    problems: list[str] = []
    for statistics, command in (
        ("never analysed", "SELECT"),
        ("vacuumed while empty", AS_IF_VACUUMED_WHILE_EMPTY),
        ("analysed while bloated", AS_IF_ANALYSED_WHILE_BLOATED),
        ("fresh", "ANALYZE"),
    ):
        run(url, command)
        for plans in ("force_generic_plan", "force_custom_plan"):
            for is_pooled, seen in statements.items():
                found = all_problems(url, seen, plans=plans, is_pooled=is_pooled)
                problems += [f"{statistics}, {plans}, {is_pooled=}: {one}" for one in sorted(found)]
            problems += sorted(all_problems(url, lists, plans=plans))
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("command", ["SELECT", "VACUUM ANALYZE"])
async def test_plans_made_while_the_tables_are_empty_are_good_when_they_are_not(
    new_database: NewDatabase, command: str
) -> None:
    """A connection keeps a plan that it made on its first day."""
    url = await migrated(new_database())
    used = await migrated(new_database())
    statements = await watch(used, is_pooled=False, with_lists=False)
    run(url, command)
    assert all_problems(url, statements, plans="force_generic_plan") == set()
