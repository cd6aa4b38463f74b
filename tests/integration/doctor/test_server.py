"""What doctor says of the set-up: versions, privileges, clocks, and the state of the server."""

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from holdfast.cli import main
from holdfast.core.examination import Code
from holdfast.stores.postgres import doctor as postgres_doctor
from holdfast.stores.postgres import migrate
from tests.integration.doctor.world import Database, fill

DONE, WRONG, MISUSED = 0, 1, 2


def examined(capsys: pytest.CaptureFixture[str], url: str, *options: str) -> tuple[int, dict[str, dict[str, Any]]]:
    exit_code = main(["doctor", "--url", url, "--patience", "0", "--json", *options])
    return exit_code, {one["code"]: one for one in json.loads(capsys.readouterr().out)["findings"]}


@pytest.mark.parametrize("revision", [None, "0005"])
def test_tables_of_another_version_are_reported(
    postgres_url: str, revision: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    if revision is not None:
        asyncio.run(migrate.upgrade(postgres_url, revision=revision))
    exit_code, found = examined(capsys, postgres_url)
    assert exit_code == WRONG
    assert "holdfast migrate --url" in found[Code.MIGRATIONS_PENDING]["what"]
    asyncio.run(migrate.upgrade(postgres_url))
    assert examined(capsys, postgres_url) == (DONE, {})


def test_a_newer_file_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = Database(f"sqlite:///{tmp_path / 'jobs.db'}")
    database.use(fill)
    database.run("UPDATE holdfast_meta SET version = 1000, compatible_since = 999")
    exit_code, found = examined(capsys, database.url)
    assert exit_code == WRONG
    assert "upgrade Holdfast" in found[Code.MIGRATIONS_PENDING]["what"]


@pytest.mark.parametrize("statement", ["CREATE TABLE theirs (a)", "DELETE FROM theirs"], ids=["a table", "nothing"])
def test_a_file_without_our_tables_is_reported_and_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], statement: str
) -> None:
    file = tmp_path / "theirs.db"
    with closing(sqlite3.connect(file)) as connection, suppress(sqlite3.OperationalError):
        connection.execute(statement)
    before = file.read_bytes()
    exit_code, found = examined(capsys, f"sqlite:///{file}", "--repair")
    assert (exit_code, list(found)) == (WRONG, [Code.MIGRATIONS_PENDING])
    assert file.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == [file.name]


def test_a_database_that_is_not_there_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--url", f"sqlite:///{tmp_path / 'none.db'}"]) == MISUSED
    assert main(["doctor", "--url", "memory://"]) == MISUSED


def test_a_damaged_file_is_found_by_a_deep_examination(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = Database(f"sqlite:///{tmp_path / 'jobs.db'}")
    database.use(fill)
    (((root,),), ((page_bytes,),)) = (
        database.run("SELECT rootpage FROM sqlite_master WHERE name = 'holdfast_api_key'"),
        database.run("PRAGMA page_size"),
    )
    with (tmp_path / "jobs.db").open("r+b") as file:
        file.seek((root - 1) * page_bytes)
        file.write(b"\xff" * 100)
    assert examined(capsys, database.url) == (DONE, {})
    exit_code, found = examined(capsys, database.url, "--deep")
    assert exit_code == WRONG
    assert found[Code.FILE_DAMAGED]["examples"]


# PostgreSQL


@pytest.fixture
def url(postgres_url: str) -> str:
    asyncio.run(migrate.upgrade(postgres_url))
    return postgres_url


@pytest.fixture
def role(url: str) -> Iterator[tuple[psycopg.Connection[Any], str, str]]:
    """The owner's connection, the name of a role that may connect, and its URL."""
    name = f"plain_{token_hex(8)}"
    parts = urlsplit(url)
    its_url = urlunsplit(parts._replace(netloc=f"{name}:secret@{parts.netloc.rpartition('@')[2]}"))
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'".encode())
        try:
            yield owner, name, its_url
        finally:
            owner.execute(f"DROP OWNED BY {name}".encode())
            owner.execute(f"DROP ROLE {name}".encode())


def test_missing_privileges_are_named(
    role: tuple[psycopg.Connection[Any], str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    owner, name, url = role
    owner.execute(f"GRANT USAGE ON SCHEMA holdfast TO {name}".encode())
    owner.execute(f"GRANT SELECT ON holdfast.schema_version TO {name}".encode())
    exit_code, found = examined(capsys, url)
    assert exit_code == WRONG
    assert set(found) == {Code.PRIVILEGES_MISSING}, "nothing else can be read"
    owner.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA holdfast TO {name}".encode())
    exit_code, found = examined(capsys, url)
    assert exit_code == WRONG
    assert "INSERT on table job" in json.dumps(found) or "DELETE on table" in json.dumps(found)
    owner.execute(f"GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA holdfast TO {name}".encode())
    exit_code, found = examined(capsys, url)
    assert found[Code.PRIVILEGES_MISSING]["examples"] == ["USAGE on sequence job_seq"]
    owner.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA holdfast TO {name}".encode())
    assert examined(capsys, url) == (DONE, {})


def test_what_somebodys_transaction_holds_is_not_called_overdue(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    database = Database(url)
    delayed = database.seq(database.use(fill)["delayed"])
    database.run(f"UPDATE {{waiting}} SET due_at = {{long_ago}} WHERE job = {delayed}")
    with psycopg.connect(url) as connection:
        connection.execute("SELECT FROM holdfast.waiting WHERE job = %s FOR UPDATE", (delayed,))
        assert examined(capsys, url) == (DONE, {})
        connection.rollback()
    assert examined(capsys, url)[1].keys() == {Code.OVERDUE_DELAYED}


def test_old_transactions_are_a_warning_and_no_failure(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(postgres_doctor._WARNINGS, Code.OLD_TRANSACTION, (0.0,))
    with psycopg.connect(url, application_name="forgotten") as connection:
        connection.execute("SELECT 1")
        exit_code, found = examined(capsys, url)
    assert exit_code == DONE
    warning = found[Code.OLD_TRANSACTION]
    assert warning["severity"] == "warning"
    assert "forgotten" in json.dumps(warning["examples"])


def test_dead_rows_and_large_indexes_are_a_warning(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(postgres_doctor._WARNINGS, Code.DEAD_ROWS, (100,))
    monkeypatch.setitem(postgres_doctor._WARNINGS, Code.INDEX_BLOAT, (8192, 500))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE holdfast.mark SET (autovacuum_enabled = off)")
        connection.execute("INSERT INTO holdfast.mark (job) SELECT * FROM generate_series(1, 5000)")
        connection.execute("DELETE FROM holdfast.mark")
        connection.execute("SELECT pg_stat_force_next_flush()")
    exit_code, found = examined(capsys, url)
    assert exit_code == DONE
    assert found[Code.DEAD_ROWS]["examples"] == ["mark: 5000 dead, 0 live"]
    assert any(example.startswith("mark_pkey: ") for example in found[Code.INDEX_BLOAT]["examples"])


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.0, None), (4.0, None), (30.0, "30.0 s behind"), (-30.0, "30.0 s ahead of")]
)
def test_clocks_that_differ_are_a_warning(seconds: float, said: str | None) -> None:
    before = datetime(2026, 1, 1, tzinfo=UTC)
    found = postgres_doctor.skew(before, before + timedelta(seconds=seconds), before)
    assert found.count == int(said is not None)
    if said is not None:
        assert said in found.detail
