"""The tables are held to the core's vocabulary, and the statements to the indexes made for them."""

import re
import sqlite3

import pytest

from holdfast.core.commands import Filter
from holdfast.core.dependencies import DependencyKind
from holdfast.core.states import REPLAYABLE, TERMINAL, WAITING, State
from holdfast.stores.sqlite import SQLiteStore
from holdfast.stores.sqlite.page import Search, _candidates
from holdfast.stores.sqlite.statements import SQL, fill, sql_files
from holdfast.stores.sqlite.write import _TABLES
from holdfast.testing.factories import submit_one

SMALL = {
    "holdfast_api_key",
    "holdfast_worker",
    "holdfast_pause",
    "holdfast_tally",
    "holdfast_beat",
    "sqlite_sequence",
    "json_each",
}
"""Read whole where need be: their size does not grow with the number of jobs."""


async def table_sql(store: SQLiteStore, table: str) -> str:
    query = "SELECT sql FROM sqlite_master WHERE name = ?"
    ((text,),) = await store._read(lambda cursor: cursor.execute(query, (table,)).fetchall())
    return str(text)


@pytest.mark.parametrize(
    ("table", "column", "words"),
    [
        ("holdfast_waiting", "state", WAITING),
        ("holdfast_ended", "state", TERMINAL),
        ("holdfast_tally", "state", tuple(State)),
        ("holdfast_edge", "kind", tuple(DependencyKind)),
    ],
)
async def test_a_check_knows_the_words_of_the_core(
    store: SQLiteStore, table: str, column: str, words: tuple[str, ...]
) -> None:
    found = re.search(rf"CHECK \({column} IN \(([^)]*)\)\)", await table_sql(store, table))
    assert found is not None
    assert set(re.findall(r"'(\w+)'", found.group(1))) == set(words)


def test_every_state_has_one_table() -> None:
    """STATE-1: state is the table a row is in."""
    assert set(_TABLES) == set(State)
    assert {state for state, table in _TABLES.items() if table == "waiting"} == set(WAITING)
    assert {state for state, table in _TABLES.items() if table == "ended"} == set(TERMINAL)
    assert set(REPLAYABLE) < set(TERMINAL)


@pytest.mark.parametrize("state", list(State))
async def test_a_table_refuses_a_state_that_is_not_its_own(store: SQLiteStore, state: State) -> None:
    waiting = "INSERT INTO holdfast_waiting SELECT 1, ?, ?, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL"
    ended = "INSERT INTO holdfast_ended SELECT 1, ?, 0, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, NULL, NULL, NULL"
    due_at = None if state is State.PENDING else 0
    for statement, values, states in ((waiting, (state.value, due_at), WAITING), (ended, (state.value,), TERMINAL)):
        if state not in states:
            with pytest.raises(Exception, match="CHECK"):
                await store._write(lambda tx, s=statement, v=values: tx.cursor.execute(s, v))  # type: ignore[misc]


async def plan(store: SQLiteStore, statement: str) -> list[str]:
    statement = re.sub(r"--.*", "", statement)
    count = len(set(re.findall(r"\?\d+", statement))) + len(re.findall(r"\?(?!\d)", statement))

    def explain(cursor: sqlite3.Cursor) -> list[str]:
        return [row[3] for row in cursor.execute(f"EXPLAIN QUERY PLAN {statement}", [1] * count)]

    return await store._read(explain)


def statements() -> dict[str, str]:
    """All of them, with what is filled in at run time; those of ``doctor`` walk over tables by design."""
    found = {}
    for name, text in SQL.items():
        if name.startswith(("doctor", "migrate")):
            continue
        if "{candidates}" in text:
            for states in (None, *({state} for state in State), set(State)):
                label = "any" if states is None else "+".join(sorted(states))
                found[f"{name} {label}"] = text.replace("{candidates}", " UNION ALL ".join(_candidates(states)))
        elif "{state}" not in text:
            found[name] = text.replace("{marks}", "?, ?")
    return found


@pytest.mark.parametrize("name", sorted(statements()))
async def test_a_statement_reads_no_large_table_from_end_to_end(store: SQLiteStore, name: str) -> None:
    """The plan is written, not hoped for: an index serves every statement, whatever the statistics say."""
    steps = await plan(store, statements()[name])
    scans = [step for step in steps if step.startswith("SCAN") and not _is_bounded(step, name)]
    assert not scans, steps


def _is_bounded(step: str, name: str) -> bool:
    table = step.split()[1]
    walks_in_order = name.startswith(("page.", "edges.find_marks")) and "TEMP B-TREE" not in step
    return table in SMALL or not table.startswith("holdfast_") or walks_in_order


@pytest.mark.parametrize(
    "name", ["claim.find", "tick.find_due", "tick.due", "retention.find_done", "retention.find_dead"]
)
async def test_a_walk_in_order_sorts_nothing(store: SQLiteStore, name: str) -> None:
    assert not [step for step in await plan(store, SQL[name]) if "TEMP B-TREE" in step]


@pytest.mark.parametrize("states", [None, {State.FAILED}, set(TERMINAL), set(WAITING), set(State)])
async def test_a_page_is_found_by_merging_not_by_sorting(store: SQLiteStore, states: set[State] | None) -> None:
    text = SQL["page.matching"].replace("{candidates}", " UNION ALL ".join(_candidates(states)))
    assert not [step for step in await plan(store, text) if "TEMP B-TREE" in step]


async def test_plans_do_not_change_with_the_callers_statistics(store: SQLiteStore) -> None:
    """The file may be the caller's own database, and ANALYZE the caller's habit."""
    for _ in range(3):
        await submit_one(store)
    before = {name: await plan(store, text) for name, text in statements().items() if name.startswith("claim.")}
    await store._write(lambda tx: tx.cursor.execute("ANALYZE").fetchall())
    after = {name: await plan(store, text) for name, text in statements().items() if name.startswith("claim.")}
    assert before == after


def test_migrations_are_numbered_without_a_gap() -> None:
    numbers = [int(file.name[:4]) for file in sql_files("migrations")]
    assert numbers == list(range(1, len(numbers) + 1))


def test_nothing_is_left_to_be_filled_in_a_migration() -> None:
    assert "{" not in fill("".join(file.read_text(encoding="utf-8") for file in sql_files("migrations")))


def test_a_search_for_no_state_finds_nothing() -> None:
    search = Search(where=Filter(), states=frozenset(), limit=10, cursor=None, budget=10)
    assert search.run(sqlite3.connect(":memory:").cursor()) == ([], None)
