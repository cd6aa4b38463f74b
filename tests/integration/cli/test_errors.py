"""What is wrong is said in one line on standard error, with the remedy, and the exit code means something."""

import signal
import sqlite3
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from tests.integration.cli.programs import (
    COMMAND,
    DONE,
    INTERRUPTED,
    LONG_SECONDS,
    NOT_DONE,
    WRONG,
    Program,
    environment,
    refused,
    run,
)

AWAY = "postgresql://postgres@127.0.0.1:1/app"
READING = (["jobs"], ["queues"], ["workers"], ["dead"], ["top", "--once"], ["replay", "--all"])


def test_without_a_command_help_is_shown() -> None:
    done = run()
    assert (done.returncode, done.stdout) == (WRONG, "")
    assert done.stderr.startswith("usage: holdfast")
    assert "130" in done.stderr


def test_a_command_that_is_none_is_named_with_one_that_is() -> None:
    line = refused("jbos")
    assert "'jbos' is not a command" in line
    assert "did you mean 'jobs'" in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["jobs", "--nonsense"], "--nonsense"),
        (["jobs", "--limit", "0"], "from 1"),
        (["jobs", "--state", "done"], "completed"),
        (["jobs", "--since", "yesterday"], "2h"),
        (["jobs", "--tag", "customer"], "name=value"),
        (["cancel", "17"], "holdfast jobs"),
        (["cancel"], "ID"),
        (["submit", "x", "--priority", "urgent"], "critical"),
        (["submit", "x", "--delay", "soon"], "5m"),
        (["submit", "x", "--delay", "99999999d"], "3650d"),
    ],
)
def test_a_wrong_argument_is_refused(arguments: list[str], said: str) -> None:
    line = refused(*arguments)
    assert said in line
    assert "--help" in line


@pytest.mark.parametrize("arguments", READING)
def test_a_file_that_is_not_there_is_not_made(tmp_path: Path, arguments: list[str]) -> None:
    missing = tmp_path / "mistyped.db"
    line = refused(*arguments, url=f"sqlite:///{missing}")
    assert "no database file" in line
    assert f"holdfast migrate --url sqlite:///{missing}" in line
    assert list(tmp_path.iterdir()) == []


def test_the_default_is_a_file_in_the_working_directory(tmp_path: Path) -> None:
    assert "holdfast.db" in refused("jobs", cwd=tmp_path)
    assert run("migrate", cwd=tmp_path).returncode == DONE
    assert run("jobs", cwd=tmp_path).returncode == DONE


def test_the_environment_names_the_database(url: str) -> None:
    assert run("jobs", HOLDFAST_URL=url).returncode == DONE


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://root:secret@localhost/app", "sqlite://"),
        ("jobs.db", "sqlite://"),
        ("postgresql://[::1/app", "postgresql://host/name"),
        ("sqlite:///", "sqlite:///jobs.db"),
        ("memory://", "sqlite:///jobs.db"),
    ],
)
def test_a_url_of_nothing_is_refused(url: str, said: str) -> None:
    line = refused("jobs", url=url)
    assert said in line
    assert "secret" not in line


def test_a_database_without_tables_names_the_command_that_makes_them(postgres_url: str) -> None:
    line = refused("jobs", url=postgres_url)
    assert f"run: holdfast migrate --url {postgres_url}" in line


def test_the_advice_does_not_show_a_password(postgres_url: str) -> None:
    head, _, tail = postgres_url.partition("://")
    user, at, rest = tail.partition("@")
    with_password = f"{head}://{user.partition(':')[0]}:secret{at}{rest}"
    line = refused("jobs", url=with_password)
    assert "holdfast migrate --url" in line
    assert "secret" not in line


def test_a_newer_postgresql_database_is_refused(migrated_url: str) -> None:
    with psycopg.connect(migrated_url) as connection:
        connection.execute("UPDATE holdfast.schema_version SET version_num = '9999', compatible_since = '9998'")
    assert "upgrade" in refused("jobs", url=migrated_url)


def test_a_newer_file_is_refused(url: str) -> None:
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE holdfast_meta SET version = 9999, compatible_since = 9998")
    assert "newer Holdfast" in refused("jobs", url=url)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("this is not a database, however long one looks at it" * 100)
    assert "not an SQLite database" in refused("jobs", url=f"sqlite:///{other}")


def test_a_database_that_is_away_could_not_be_asked() -> None:
    assert "does not answer" in refused("jobs", url=AWAY, code=NOT_DONE)


def test_a_database_that_is_away_is_waited_for_when_asked_to() -> None:
    done = run("jobs", "--connect-timeout", "1", url=AWAY)
    assert done.returncode == NOT_DONE
    waiting, given_up = done.stderr.splitlines()
    assert "trying again for 1 s" in waiting
    assert "does not answer" in given_up


@pytest.mark.parametrize("arguments", [["jobs"], ["jobs", "--json"], ["queues", "--json"], ["--help"]])
def test_a_pipe_that_nobody_reads_ends_it_silently(url: str, filled: object, arguments: list[str]) -> None:
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(HOLDFAST_URL=url),
        text=True,
    ) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.close()
        assert program.stderr.read() == ""
        assert program.wait() == DONE


def wait_until_open(program: Program, path: Path) -> None:
    """Until the program has the file open, as the system sees it."""
    deadline = time.monotonic() + LONG_SECONDS
    while path not in open_files(program.pid):
        assert time.monotonic() < deadline, f"never opened {path}: {program.text}"
        time.sleep(0.02)


def open_files(pid: int) -> set[Path]:
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found.add(descriptor.readlink())
    return found


@pytest.mark.parametrize("arguments", [["top", "--once", "--interval", "60s"], ["dead", "--follow"]])
def test_ctrl_c_ends_without_a_traceback(url: str, arguments: list[str]) -> None:
    with Program(*arguments, "--url", url) as program:
        if "--follow" in arguments:
            program.wait_for("waiting")
        else:
            wait_until_open(program, Path(url.removeprefix("sqlite:///")))  # it says nothing until it has looked twice
        program.signal(signal.SIGINT)
        assert program.exit_code() == INTERRUPTED
    assert "Traceback" not in program.text


def test_ctrl_c_while_waiting_for_the_database_ends_it() -> None:
    with Program("jobs", "--connect-timeout", "60", "--url", AWAY) as program:
        program.wait_for("trying again")
        program.signal(signal.SIGINT)
        assert program.exit_code() == INTERRUPTED
    assert "Traceback" not in program.text


def test_a_terminal_without_unicode_is_shown_escapes(url: str) -> None:
    run("submit", "größe", url=url)
    done = run("jobs", url=url, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (DONE, "")
    assert "gr\\xf6\\xdfe" in done.stdout
