"""``holdfast migrate``: what it prints, where, and with which exit code."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from holdfast.cli import main
from holdfast.stores.postgres import migrate
from holdfast.testing import ManualClock
from tests.integration.postgres.databases import fetch, opened
from tests.integration.postgres.workload import use_every_verb
from tests.servers import PostgresServer
from tests.servers.process import give_away

DONE, FAILED, WRONG = 0, 1, 2


def version_of(url: str, schema: str = "holdfast") -> str:
    with psycopg.connect(url) as connection:
        row = connection.execute(f"SELECT version_num FROM {schema}.schema_version".encode()).fetchone()
    assert row is not None
    return str(row[0])


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int) -> str:
    """The one line on standard error that a refusal consists of."""
    assert main(arguments) == code
    written = capsys.readouterr()
    assert written.out == ""
    (line,) = written.err.splitlines()
    assert line.startswith("holdfast: ")
    return line


def test_it_makes_the_tables_and_says_so(postgres_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", "--url", postgres_url]) == DONE
    written = capsys.readouterr()
    assert written.out.splitlines() == [f"schema 'holdfast' is at version {version_of(postgres_url)}"]
    assert written.err == ""
    assert main(["migrate", "--url", postgres_url]) == DONE
    assert capsys.readouterr() == written


def test_the_url_may_come_from_the_environment(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_URL", postgres_url)
    assert main(["migrate"]) == DONE
    assert version_of(postgres_url)


def test_the_schema_may_stand_in_the_url(postgres_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", "--url", f"{postgres_url}?schema=other&prepared=off&listen=off"]) == DONE
    assert "'other'" in capsys.readouterr().out
    assert version_of(postgres_url, "other")


def test_sql_prints_what_psql_can_run_and_changes_nothing(
    postgres_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["migrate", "--url", postgres_url, "--sql"]) == DONE
    printed = capsys.readouterr().out
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT to_regnamespace('holdfast')").fetchone() == (None,)
    command = ["psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", postgres_url]
    subprocess.run(command, input=printed, text=True, check=True)
    assert version_of(postgres_url)
    assert main(["migrate", "--url", postgres_url]) == DONE


def test_sql_needs_no_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", "--url", "postgresql://127.0.0.1:1/nothing", "--sql"]) == DONE
    assert "CREATE TABLE" in capsys.readouterr().out


def test_it_runs_as_a_program(postgres_url: str) -> None:
    command = [sys.executable, "-m", "holdfast", "migrate", "--url", postgres_url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (DONE, "")
    assert done.stdout.startswith("schema 'holdfast' is at version ")


def test_a_url_of_no_store_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "migrate", "--url", "mysql://root:secret@localhost/app", code=WRONG)
    assert "postgresql://" in line
    assert "secret" not in line


def test_a_wrong_database_is_refused(postgres_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "database" in refused(capsys, "migrate", "--url", f"{postgres_url}_not_there", code=WRONG)


def test_a_server_that_is_not_there_is_not_the_users_fault(capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "migrate", "--url", "postgresql://postgres@127.0.0.1:1/app", code=FAILED)
    assert "repeat" in line


@pytest.mark.parametrize("schema", ["a-b", "1", "a;drop"])
def test_a_schema_that_is_no_name_is_refused(
    postgres_url: str, schema: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert schema in refused(capsys, "migrate", "--url", f"{postgres_url}?schema={schema}", code=WRONG)


def test_a_wrong_password_is_refused(private_postgres: PostgresServer, capsys: pytest.CaptureFixture[str]) -> None:
    with psycopg.connect(private_postgres.url(), autocommit=True) as connection:
        connection.execute("CREATE ROLE guarded LOGIN PASSWORD 'right' CREATEDB")
        connection.execute("GRANT CREATE ON DATABASE postgres TO guarded")
        row = connection.execute("SHOW hba_file").fetchone()
        assert row is not None
        rules = Path(row[0])
        rules.write_text(f"host all guarded 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        give_away(rules)
        connection.execute("SELECT pg_reload_conf()")
    parts = urlsplit(private_postgres.url())

    def url(password: str) -> str:
        return urlunsplit(parts._replace(netloc=f"guarded:{password}@127.0.0.1:{parts.port}"))

    line = refused(capsys, "migrate", "--url", url("wrong"), code=WRONG)
    assert "password" in line
    assert "wrong" not in line
    assert main(["migrate", "--url", url("right")]) == DONE


# rights


@dataclass(frozen=True)
class Role:
    name: str
    url: str
    owner: psycopg.Connection[Any]

    def allow(self, *statements: str) -> None:
        for statement in statements:
            self.owner.execute(statement.format(role=self.name).encode())


@pytest.fixture
def role(postgres_url: str) -> Iterator[Role]:
    """A role that may connect to a fresh database, and nothing else."""
    name = f"plain_{token_hex(8)}"
    parts = urlsplit(postgres_url)
    url = urlunsplit(parts._replace(netloc=f"{name}:secret@{parts.netloc.rpartition('@')[2]}"))
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'".encode())
        try:
            yield Role(name, url, owner)
        finally:
            owner.execute(f"DROP OWNED BY {name}".encode())
            owner.execute(f"DROP ROLE {name}".encode())


def test_an_existing_schema_needs_no_right_to_create_one(role: Role, capsys: pytest.CaptureFixture[str]) -> None:
    role.allow("CREATE SCHEMA holdfast", "GRANT USAGE, CREATE ON SCHEMA holdfast TO {role}")
    assert main(["migrate", "--url", role.url]) == DONE
    assert version_of(role.url)


def test_a_role_that_only_reads_and_writes_rows_finds_the_schema_up_to_date(
    role: Role, postgres_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["migrate", "--url", postgres_url]) == DONE
    printed = capsys.readouterr().out
    role.allow(
        "GRANT USAGE ON SCHEMA holdfast TO {role}",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA holdfast TO {role}",
        "GRANT USAGE ON ALL SEQUENCES IN SCHEMA holdfast TO {role}",
    )
    assert main(["migrate", "--url", role.url]) == DONE
    assert capsys.readouterr().out == printed
    asyncio.run(work_as(role.url))


async def work_as(url: str) -> None:
    """Every verb, and the adding up of counts, which empties a table."""
    clock = ManualClock(datetime.now(UTC))
    async with opened(url, clock=clock, listen=False) as store:
        await fetch(url, "INSERT INTO holdfast.tally SELECT 0, 'COMPLETED', 'workload' FROM generate_series(1, 20000)")
        await use_every_verb(store, clock)
    (counts,) = await fetch(url, "SELECT count(*) AS rows FROM holdfast.tally")
    assert counts["rows"] < 20_000


def test_the_missing_right_is_named(role: Role, postgres_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "migrate", "--url", role.url, code=WRONG)
    assert role.name in line
    assert "CREATE privilege on database" in line
    role.allow("CREATE SCHEMA holdfast")
    assert "USAGE" in refused(capsys, "migrate", "--url", role.url, code=WRONG)
    role.allow("GRANT USAGE ON SCHEMA holdfast TO {role}")
    assert "CREATE privilege on schema 'holdfast'" in refused(capsys, "migrate", "--url", role.url, code=WRONG)
    asyncio.run(migrate.upgrade(postgres_url, revision="0003"))
    role.allow("GRANT CREATE ON SCHEMA holdfast TO {role}")
    assert "SELECT" in refused(capsys, "migrate", "--url", role.url, code=WRONG)
    role.allow("GRANT SELECT ON ALL TABLES IN SCHEMA holdfast TO {role}")
    line = refused(capsys, "migrate", "--url", role.url, code=WRONG)
    assert "holdfast.api_key: it is not its owner" in line
    assert "'postgres'" in line


def test_a_sqlite_file_migrates_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    assert main(["migrate", "--url", url]) == DONE
    assert (tmp_path / "jobs.db").exists()
    capsys.readouterr()
    assert "SQLite" in refused(capsys, "migrate", "--url", url, "--sql", code=WRONG)


def test_it_answers_as_an_object(postgres_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", "--url", postgres_url, "--json"]) == DONE
    assert json.loads(capsys.readouterr().out)["version"] == version_of(postgres_url)
    assert main(["migrate", "--url", f"sqlite:///{tmp_path / 'jobs.db'}", "--json"]) == DONE
    assert "jobs.db" in json.loads(capsys.readouterr().out)["url"]
