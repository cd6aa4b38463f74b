"""The schema: made once however many start at once, the same from a file of SQL, and checked before it is used."""

import asyncio
import subprocess
import sys
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
import pytest

from holdfast.cli import main
from holdfast.core.access import NewKey, Scope
from holdfast.core.commands import Submit
from holdfast.core.dependencies import DependencyKind
from holdfast.core.errors import ConfigError, SchemaMismatch, SchemaMissing, Unavailable
from holdfast.core.priority import Priority
from holdfast.core.states import TERMINAL, WAITING, State
from holdfast.stores.postgres import PostgresStore, migrate, version
from holdfast.testing.factories import (
    hears,
    job_in_state,
    new_job,
    read_one,
    running_job,
    submit_one,
)
from tests.conftest import NewDatabase
from tests.integration.postgres.callers import with_asyncpg
from tests.integration.postgres.databases import (
    TABLES,
    connected,
    fetch,
    listening,
    opened,
    somebody_waits_for_a_lock,
)

PROCESSES = 3
TASKS = 8


async def shape_of(url: str, schema: str = "holdfast") -> dict[str, list[Any]]:
    """Everything a schema is made of, as PostgreSQL writes it down."""
    questions = {
        "columns": """
            SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns
            WHERE table_schema = $1 ORDER BY 1, 2
        """,
        "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = $1 ORDER BY 1, 2",
        "constraints": """
            SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
            WHERE connamespace = $1::regnamespace ORDER BY 1, 2
        """,
        "sequences": "SELECT sequencename FROM pg_sequences WHERE schemaname = $1 ORDER BY 1",
        "settings": "SELECT relname, reloptions FROM pg_class WHERE relnamespace = $1::regnamespace ORDER BY 1",
    }
    async with connected(url) as connection:
        shape = {what: [tuple(row) for row in await connection.fetch(sql, schema)] for what, sql in questions.items()}
        shape["version"] = [await connection.fetchval(f"SELECT version_num FROM {schema}.schema_version")]
        shape["beat"] = [await connection.fetchval(f"SELECT count(*) FROM {schema}.beat")]
    return shape


async def test_the_shape_is_all_there(url: str) -> None:
    shape = await shape_of(url)
    assert {row[0] for row in shape["columns"]} == {*TABLES, "schema_version"}
    assert {row[1] for row in shape["indexes"]} >= {"ready_claim", "waiting_due", "running_expires", "ended_done"}


async def test_many_tasks_migrate_one_empty_database_at_once(new_database: NewDatabase, url: str) -> None:
    fresh = new_database()
    await asyncio.gather(*(migrate.upgrade(fresh) for _ in range(TASKS)))
    assert await shape_of(fresh) == await shape_of(url)


async def test_many_processes_migrate_one_empty_database_at_once(new_database: NewDatabase, url: str) -> None:
    fresh = new_database()
    command = [sys.executable, "-m", "holdfast", "migrate", "--url", fresh]
    start = asyncio.create_subprocess_exec
    running = [await start(*command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(PROCESSES)]
    answers = await asyncio.gather(*(process.communicate() for process in running))
    assert [process.returncode for process in running] == [0] * PROCESSES, answers
    assert await shape_of(fresh) == await shape_of(url)


async def test_a_second_migration_changes_nothing(new_database: NewDatabase) -> None:
    fresh = new_database()
    await migrate.upgrade(fresh)
    async with opened(fresh) as store:
        job_id = await submit_one(store)
    before = await fetch(fresh, "SELECT oid, relfilenode, xmin FROM pg_class WHERE relname = 'job'")
    shape = await shape_of(fresh)
    await migrate.upgrade(fresh)
    assert await fetch(fresh, "SELECT oid, relfilenode, xmin FROM pg_class WHERE relname = 'job'") == before
    assert await shape_of(fresh) == shape
    async with opened(fresh) as store:
        assert (await read_one(store, job_id)).id == job_id


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "LOCK_SECONDS", 0.2)
    monkeypatch.setattr(migrate, "PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(migrate, "PATIENCE_SECONDS", 1.0)


@pytest.mark.usefixtures("impatient")
async def test_a_migration_that_finds_a_table_in_use_changes_nothing_and_says_who_uses_it(
    new_database: NewDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever comes meanwhile gets their turn: else everything waits for as long as that transaction lasts."""
    fresh = new_database()
    await migrate.upgrade(fresh, revision="0004")
    before = await shape_of(fresh)
    async with (
        connected(fresh, application_name="billing") as stranger,
        connected(fresh, lock_timeout="60s") as bystander,
        stranger.transaction(),
    ):
        await stranger.execute("LOCK TABLE holdfast.ready IN ROW EXCLUSIVE MODE")
        migrating = asyncio.create_task(asyncio.to_thread(main, ["migrate", "--url", fresh]))
        reads = 0
        while not migrating.done():
            await bystander.fetch("SELECT count(*) FROM holdfast.ready")
            reads += 1
            await asyncio.sleep(0.01)
        pid = stranger.get_server_pid()
        assert await migrating == 1
    assert reads > 1
    first, last = capsys.readouterr().err.splitlines()
    for line in (first, last):
        assert f"pid {pid} (billing, user postgres) has a transaction open since 2" in line
    assert "trying again" in first
    assert "still at 0004" in last
    assert "run: holdfast migrate" in last
    assert await shape_of(fresh) == before


@pytest.mark.usefixtures("impatient")
async def test_a_migration_goes_on_when_the_table_is_free(
    new_database: NewDatabase, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "PATIENCE_SECONDS", 60.0)
    fresh = new_database()
    await migrate.upgrade(fresh, revision="0004")
    told = asyncio.Event()
    async with connected(fresh) as stranger:
        transaction = stranger.transaction()
        await transaction.start()
        await stranger.execute("LOCK TABLE holdfast.ready IN ROW EXCLUSIVE MODE")
        migrating = asyncio.create_task(migrate.upgrade(fresh, say=lambda _: told.set()))
        await asyncio.wait_for(told.wait(), 15)
        await transaction.rollback()
        await migrating
    assert await shape_of(fresh) == await shape_of(url)


async def test_a_database_without_keys_is_given_a_place_for_them(new_database: NewDatabase, url: str) -> None:
    """What stands in the tables of the version before stays as it was."""
    fresh = new_database()
    await migrate.upgrade(fresh, revision="0002")
    slot = "INSERT INTO holdfast.cron_slot (name, slot, fired_at) VALUES ('nightly', now(), now())"
    await fetch(fresh, slot)
    assert "run: holdfast migrate" in await refusal(fresh, SchemaMismatch)
    await migrate.upgrade(fresh)
    assert await shape_of(fresh) == await shape_of(url)
    async with opened(fresh) as store:
        assert [one.name for one in (await store.read_cron()).slots] == ["nightly"]
        assert await store.read_keys() == []
        new = NewKey(id=uuid4(), name="ci", scopes=frozenset({Scope.READ}), digest=bytes(32))
        added = await store.add_key(new)
        assert await store.read_keys() == [added]


async def test_the_sequence_is_not_set_back_behind_a_program_at_work(new_database: NewDatabase) -> None:
    """0004: whoever has drawn from it, and has not committed, is waited for; nobody draws while it is set."""
    fresh = new_database()
    await migrate.upgrade(fresh, revision="0003")
    async with connected(fresh) as program:
        await program.execute("BEGIN")
        await program.execute("SELECT nextval('holdfast.job_seq') FROM generate_series(1, 100)")
        migration = asyncio.create_task(migrate.upgrade(fresh))
        await somebody_waits_for_a_lock(fresh)
        last = await program.fetchval("SELECT max(nextval('holdfast.job_seq')) FROM generate_series(1, 100)")
        await program.execute("COMMIT")
    await migration
    (row,) = await fetch(fresh, "SELECT nextval('holdfast.job_seq') AS next")
    assert row["next"] > last


async def test_a_sequence_that_was_set_back_is_put_right(new_database: NewDatabase) -> None:
    """0006: above every number and every place that is in use."""
    fresh = new_database()
    await migrate.upgrade(fresh, revision="0004")
    await fetch_script(
        fresh,
        """
        INSERT INTO holdfast.job (
            seq, id, type, queue, priority, depth, payload, is_json, created_at, max_attempts, visibility_seconds,
            lifetime_seconds
        ) VALUES (500, gen_random_uuid(), 'example', 'default', 2, 0, '{}', true, now(), 3, 300, 604800);
        INSERT INTO holdfast.ready (
            job, place, scheduled_at, lifetime_ends_at, version, attempt, replays, priority, is_fragile, has_dependents,
            queue
        ) VALUES (500, 900, now(), now() + interval '7 days', 0, 0, 0, 2, false, false, 'default');
        """,
    )
    await migrate.upgrade(fresh)
    (row,) = await fetch(fresh, "SELECT nextval('holdfast.job_seq') AS next")
    assert row["next"] == 901


@pytest.mark.parametrize("by", ["asyncpg", "psql"])
async def test_the_printed_statements_make_the_same_schema(new_database: NewDatabase, url: str, by: str) -> None:
    fresh = new_database()
    text = migrate.sql()
    if by == "psql":
        command = ["psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", fresh]
        done = await asyncio.to_thread(subprocess.run, command, input=text, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    else:
        await fetch_script(fresh, text)
    assert await shape_of(fresh) == await shape_of(url)
    await migrate.upgrade(fresh)
    async with opened(fresh) as store:
        await submit_one(store)


async def fetch_script(url: str, text: str) -> None:
    async with connected(url) as connection:
        await connection.execute(text)


async def test_two_schemas_live_side_by_side(new_database: NewDatabase) -> None:
    fresh = new_database()
    await migrate.upgrade(fresh)
    await migrate.upgrade(fresh, schema="Other")
    async with opened(fresh) as one, opened(fresh, schema="Other") as two:
        job_id = await submit_one(one)
        assert await two.read([job_id]) == [None]
        running = await running_job(two)
        assert await one.read([running.id]) == [None]
        assert [queue.name for queue in await one.read_queues()] == ["default"]


async def test_the_longest_schema_name_works_to_the_last_notification(new_database: NewDatabase) -> None:
    fresh = new_database()
    name = "x" * 63
    await migrate.upgrade(fresh, schema=name)
    async with opened(fresh, schema=name) as store, opened(fresh, schema=name) as other:
        await listening(other)
        waiter = asyncio.create_task(hears(other, ["default"], within_seconds=20))
        async with with_asyncpg(fresh) as caller:
            await store.submit([Submit(jobs=(new_job(),))], connection=caller.connection)
            await caller.commit()
        assert await waiter


@pytest.mark.parametrize("name", ["", "a-b", 'a"b', "1a", "x" * 64, "ü", "a b", "a;b"])
async def test_a_name_that_is_none_is_refused(postgres_url: str, name: str) -> None:
    with pytest.raises(ConfigError):
        PostgresStore(postgres_url, schema=name)
    with pytest.raises(ConfigError):
        await migrate.upgrade(postgres_url, schema=name)


# what a store says of a schema that is not its own


async def refusal(url: str, kind: type[Exception]) -> str:
    with pytest.raises(kind) as refused:
        await PostgresStore(url).open()
    return str(refused.value)


async def test_a_database_without_tables_is_refused_with_the_command_to_run(postgres_url: str) -> None:
    message = await refusal(postgres_url, SchemaMissing)
    assert "holdfast migrate" in message
    await migrate.upgrade(postgres_url, schema="other")
    assert "holdfast migrate" in await refusal(postgres_url, SchemaMissing)


async def test_a_newer_schema_takes_programs_that_it_is_compatible_with(new_database: NewDatabase) -> None:
    fresh = new_database()
    await migrate.upgrade(fresh)
    newer = "UPDATE holdfast.schema_version SET version_num = '9999', compatible_since = $1"
    await fetch(fresh, newer, version.head())
    async with opened(fresh) as store:
        await submit_one(store)
    assert await migrate.upgrade(fresh) == "9999"
    await fetch(fresh, newer, version.written(version.own().number + 1))
    assert "upgrade this program" in await refusal(fresh, SchemaMismatch)
    with pytest.raises(SchemaMismatch, match="upgrade this program"):
        await migrate.upgrade(fresh)


async def test_a_newer_schema_asks_for_a_newer_program(new_database: NewDatabase) -> None:
    fresh = new_database()
    await migrate.upgrade(fresh)
    await fetch(fresh, "UPDATE holdfast.schema_version SET version_num = '9999', compatible_since = '9998'")
    message = await refusal(fresh, SchemaMismatch)
    assert "upgrade this program" in message
    assert "9999" in message
    assert version.head() in message


@pytest.mark.parametrize(
    "change", ["UPDATE holdfast.schema_version SET version_num = '0000'", "DELETE FROM holdfast.schema_version"]
)
async def test_an_older_schema_asks_for_the_migration(new_database: NewDatabase, change: str) -> None:
    fresh = new_database()
    await migrate.upgrade(fresh)
    await fetch(fresh, change)
    assert "holdfast migrate" in await refusal(fresh, SchemaMismatch)


async def test_tables_that_vanish_are_named_as_the_cause(new_database: NewDatabase) -> None:
    fresh = new_database()
    await migrate.upgrade(fresh)
    async with opened(fresh) as store:
        await fetch(fresh, "DROP SCHEMA holdfast CASCADE")
        with pytest.raises(SchemaMissing, match="holdfast migrate"):
            await store.read_queues()


# who may connect


def as_user(url: str, name: str, password: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{name}:{password}@{host}"))


async def test_a_wrong_database_is_a_matter_of_configuration(postgres_url: str) -> None:
    wrong = f"{postgres_url}_that_is_not_there"
    assert "database" in await refusal(wrong, ConfigError)
    with pytest.raises(ConfigError, match="database"):
        await migrate.upgrade(wrong)


async def test_a_wrong_user_is_a_matter_of_configuration(postgres_url: str) -> None:
    wrong = as_user(postgres_url, "nobody_of_this_name", "wrong")
    assert "user" in await refusal(wrong, ConfigError)
    with pytest.raises(ConfigError, match="user"):
        await migrate.upgrade(wrong)


async def test_a_user_without_rights_is_a_matter_of_configuration(new_database: NewDatabase) -> None:
    fresh = new_database()
    await migrate.upgrade(fresh)
    name = f"reader_{token_hex(8)}"
    await fetch(fresh, f"CREATE ROLE {name} LOGIN PASSWORD 'secret'")
    try:
        wrong = as_user(fresh, name, "secret")
        assert "grant" in await refusal(wrong, ConfigError)
        with pytest.raises(ConfigError, match="grant"):
            await migrate.upgrade(wrong, schema="other")
    finally:
        await fetch(fresh, f"DROP ROLE {name}")


async def test_a_server_that_is_not_there_may_come_yet() -> None:
    nowhere = "postgresql://postgres@127.0.0.1:1/nothing"
    await refusal(nowhere, Unavailable)
    with pytest.raises(Unavailable):
        await migrate.upgrade(nowhere)


# constraints, made from the tables of the core


@pytest.mark.parametrize(
    ("table", "column", "values"),
    [("waiting", "state", WAITING), ("ended", "state", TERMINAL), ("edge", "kind", tuple(DependencyKind))],
)
async def test_the_database_allows_what_the_core_knows(url: str, table: str, column: str, values: Any) -> None:
    (row,) = await fetch(
        url,
        """
        SELECT pg_get_constraintdef(oid) AS text FROM pg_constraint
        WHERE conrelid = ('holdfast.' || $1)::regclass AND contype = 'c'
            AND pg_get_constraintdef(oid) LIKE '%' || $2 || ' = ANY%'
        """,
        table,
        column,
    )
    named = row["text"].split("'")[1::2]
    assert sorted(named) == sorted(str(value) for value in values)


async def test_every_state_has_one_table_that_takes_it() -> None:
    assert {*WAITING, *TERMINAL, State.SCHEDULED, State.RUNNING} == set(State)
    assert len(WAITING) + len(TERMINAL) + 2 == len(State)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE holdfast.waiting SET state = 'SCHEDULED', due_at = now()",
        "UPDATE holdfast.waiting SET state = 'NONSENSE', due_at = now()",
        "UPDATE holdfast.waiting SET due_at = now() WHERE state = 'PENDING'",
        "UPDATE holdfast.waiting SET due_at = NULL WHERE state = 'DELAYED'",
        "UPDATE holdfast.ended SET state = 'RUNNING'",
        "UPDATE holdfast.ended SET state = 'completed'",
        "UPDATE holdfast.edge SET kind = 'BEFORE'",
        f"UPDATE holdfast.job SET priority = {max(Priority) + 1}",
        f"UPDATE holdfast.job SET priority = {min(Priority) - 1}",
        "INSERT INTO holdfast.beat (is_only) VALUES (false)",
        "INSERT INTO holdfast.api_key VALUES (gen_random_uuid(), 'ci', '{read}', 'hf_a_b', now())",
    ],
)
async def test_a_row_that_cannot_be_is_refused(store: PostgresStore, url: str, change: str) -> None:
    for state in (State.PENDING, State.DELAYED, State.COMPLETED):
        await job_in_state(store, state)
    with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.CheckViolation):
        connection.execute(change.encode())


async def test_two_jobs_cannot_share_an_id(store: PostgresStore, url: str) -> None:
    await submit_one(store)
    await submit_one(store)
    with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute("UPDATE holdfast.job SET id = (SELECT id FROM holdfast.job ORDER BY seq LIMIT 1)")


def test_migrations_are_numbered_without_a_gap_and_state_who_goes_on() -> None:
    found = version.migrations()
    assert [migration.number for migration in found] == list(range(1, len(found) + 1))
    since = [migration.compatible_since for migration in found]
    assert since == sorted(since)
    assert all(one.compatible_since <= one.number for one in found)
