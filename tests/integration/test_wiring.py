"""From a URL to the store it names."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.core.errors import ConfigError
from holdfast.stores.memory import MemoryStore
from holdfast.stores.postgres import PostgresStore, migrate
from holdfast.stores.sqlite import SQLiteStore
from holdfast.testing.factories import read_one, submit_one
from holdfast.wiring import create_store, default_log_url, settled_url, split_options, sqlite_path


def test_each_scheme_names_its_store() -> None:
    assert isinstance(create_store("memory://"), MemoryStore)
    assert isinstance(create_store("sqlite:///jobs.db"), SQLiteStore)
    assert isinstance(create_store("postgresql://localhost/app"), PostgresStore)
    assert isinstance(create_store("postgres://localhost/app"), PostgresStore)


@pytest.mark.parametrize("query", ["", "?schema=other", "?prepared=off&listen=off", "?application_name=mine"])
async def test_a_postgres_store_works_with_the_options_of_its_url(postgres_url: str, query: str) -> None:
    url = postgres_url + query
    plain, options = split_options(url)
    await migrate.upgrade(plain, schema=options.get("schema", "holdfast"))
    store = create_store(url)
    await store.open()
    try:
        job_id = await submit_one(store)
        assert (await read_one(store, job_id)).id == job_id
    finally:
        await store.close()


async def test_a_sqlite_store_keeps_its_file_where_the_url_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for url, path in (("sqlite:///a.db", tmp_path / "a.db"), (f"sqlite:///{tmp_path}/b.db", tmp_path / "b.db")):
        store = create_store(url)
        await store.open()
        await submit_one(store)
        await store.close()
        assert path.exists()


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("my%20jobs.db", "my jobs.db"),
        ("my jobs.db", "my jobs.db"),
        ("50%25%3F%23.db", "50%?#.db"),
        ("%C3%A4.db", "ä.db"),
    ],
)
async def test_a_path_is_escaped_as_in_every_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    url = settled_url(f"sqlite:///{written}")
    assert sqlite_path(url) == tmp_path / name
    assert settled_url(url) == url
    assert default_log_url(url) == f"{tmp_path / name}-logs"
    store = create_store(url)
    await store.open()
    await store.close()
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_file_has_one_log_folder_whatever_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "jobs.db").symlink_to(tmp_path / "data" / "real.db")
    (tmp_path / "linked").symlink_to(tmp_path / "data")
    names = ("jobs.db", "linked/real.db", "data/real.db", "data/../jobs.db")
    expected = f"{tmp_path}/data/real.db-logs"
    # The file is not there yet; then it is.
    assert {default_log_url(f"sqlite:///{tmp_path}/{name}") for name in names} == {expected}
    (tmp_path / "data" / "real.db").touch()
    assert {default_log_url(f"sqlite:///{tmp_path}/{name}") for name in names} == {expected}


def test_our_options_are_taken_out_and_the_drivers_are_left() -> None:
    url = "postgresql://u:p%40ss@h:1/d?sslmode=require&schema=s&prepared=off&listen=on&application_name=a%20b"
    plain, options = split_options(url)
    assert options == {"schema": "s", "prepared": "off", "listen": "on"}
    assert plain == "postgresql://u:p%40ss@h:1/d?sslmode=require&application_name=a+b"


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("mysql://localhost/app", "mysql://localhost/app"),
        ("", "memory://"),
        ("jobs.db", "sqlite://"),
        ("sqlite://jobs.db", "sqlite:///jobs.db"),
        ("sqlite:///", "sqlite:///jobs.db"),
        ("sqlite:///jobs.db?mode=ro", "takes no options, so leave out ?mode=ro"),
        ("sqlite:///jobs.db#main", "%23"),
        ("sqlite:///jobs%00.db", "%00"),
        ("postgresql://localhost/app?prepared=no", "prepared=on or prepared=off"),
        ("postgresql://localhost/app?listen=", "listen=on or listen=off"),
        ("postgresql://localhost/app?schema=a-b", "a-b"),
    ],
)
def test_a_url_that_names_no_store_is_refused_with_what_to_write(url: str, named: str) -> None:
    with pytest.raises(ConfigError) as refused:
        create_store(url)
    assert named in str(refused.value)


def test_a_refusal_does_not_show_the_password() -> None:
    with pytest.raises(ConfigError) as refused:
        create_store("mysql://root:secret@localhost/app")
    assert "secret" not in str(refused.value)
    assert "root:***@localhost" in str(refused.value)


def test_a_missing_package_is_named_with_the_command_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(ConfigError, match=r"pip install 'holdfast\[postgres\]'"):
        create_store("postgresql://localhost/app")


@pytest.mark.parametrize("url", ["memory://", "sqlite:///jobs.db"])
def test_a_store_that_needs_no_package_imports_none(url: str) -> None:
    program = f"""
import sys
from holdfast.wiring import create_store
create_store({url!r})
print(sorted(name for name in ("asyncpg", "sqlalchemy", "psycopg") if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
