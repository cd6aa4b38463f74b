"""API keys from the command line, on a file and on PostgreSQL: made, checked, revoked, and shown once."""

import base64
import re
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest

from holdfast.core.access import Scope, public_part, read_secret
from holdfast.core.ports import Store
from holdfast.engine.access import Access
from tests.integration.cli.conftest import with_store
from tests.integration.cli.programs import (
    COMMAND,
    DONE,
    LONG_SECONDS,
    NOT_DONE,
    WRONG,
    Terminal,
    environment,
    refused,
    run,
    run_json,
)

SECRET = re.compile(r"hf_[\w-]{22}_[\w-]{43}")
AWAY = "postgresql://postgres@127.0.0.1:1/app"


@pytest.fixture(params=["url", "migrated_url"], ids=["sqlite", "postgres"])
def either_url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return found


def create(url: str, *arguments: str, name: str = "ci", scope: str = "submit") -> str:
    done = run("keys", "create", name, "--scope", scope, *arguments, url=url)
    assert done.returncode == DONE, done.stderr
    return done.stdout.rstrip("\n")


def is_good(url: str, secret: str, scope: str = "submit") -> bool:
    done = run("keys", "check", "--scope", scope, url=url, stdin=secret)
    assert done.returncode in (DONE, NOT_DONE), done.stderr
    return done.returncode == DONE


def test_the_way_of_a_key(either_url: str) -> None:
    done = run("keys", "create", "ci", "--scope", "submit", "--scope", "read", "--expires", "90d", url=either_url)
    secret = done.stdout.removesuffix("\n")
    assert SECRET.fullmatch(secret)
    key_id = str(read_secret(secret).key_id)
    assert f"key {key_id} (ci) is good for read, submit until " in done.stderr
    assert "it cannot be shown again" in done.stderr
    assert [is_good(either_url, secret, scope) for scope in Scope] == [True, True, False, False]
    assert (
        f"key {key_id} (ci) is good for read"
        in run("keys", "check", "--scope", "read", url=either_url, stdin=secret).stdout
    )
    title, row = run("keys", url=either_url).stdout.splitlines()
    assert title.split() == ["ID", "NAME", "SCOPES", "STATE", "CREATED", "EXPIRES"]
    assert row.startswith(f"{key_id}  ci    read, submit  active ")
    revoked = run("keys", "revoke", key_id, url=either_url)
    assert (revoked.returncode, revoked.stderr) == (DONE, "")
    assert f"key {key_id} (ci) is revoked since " in revoked.stdout
    assert run("keys", "revoke", key_id, url=either_url).stdout == revoked.stdout, "the first time stays"
    assert "revoked" in refused("keys", "check", "--scope", "read", url=either_url, stdin=secret, code=NOT_DONE)
    assert "  revoked " in run("keys", url=either_url).stdout


def test_machines_get_one_object(url: str) -> None:
    assert run_json("keys", url=url) == {"keys": []}
    made = run_json("keys", "create", "ci", "--scope", "read,submit", "--expires", "1h", url=url)
    secret = made.pop("secret")
    assert SECRET.fullmatch(secret)
    assert made["begins_with"] == secret[:25]
    assert (made["name"], made["scopes"], made["state"], made["revoked_at"]) == (
        "ci",
        ["read", "submit"],
        "active",
        None,
    )
    assert made["expires_at"] > made["created_at"]
    assert run_json("keys", url=url) == {"keys": [made]}
    checked = run_json("keys", "check", "--scope", "read", url=url, stdin=secret)
    assert checked == {"is_allowed": True, "scope": "read", "reason": None, "key": made}
    denied = {"is_allowed": False, "scope": "admin", "reason": "scope_missing", "key": None}
    assert run_json("keys", "check", "--scope", "admin", url=url, stdin=secret, code=NOT_DONE) == denied
    revoked = run_json("keys", "revoke", made["id"], url=url)
    assert revoked == {**made, "state": "revoked", "revoked_at": revoked["revoked_at"]}
    assert run_json("keys", url=url) == {"keys": [revoked]}
    answer = run_json("keys", "check", "--scope", "read", url=url, stdin=secret, code=NOT_DONE)
    assert answer["reason"] == "revoked"
    nothing = run_json("keys", "check", "--scope", "read", url=url, stdin="nonsense", code=NOT_DONE)
    assert nothing["reason"] == "malformed"


def everything_in_the_file(url: str) -> bytes:
    """The database as it lies on the disk, log and all."""
    path = Path(url.removeprefix("sqlite:///"))
    return b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))


def everything_in_the_schema(url: str) -> bytes:
    with psycopg.connect(url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'holdfast'").fetchall()
        rows = [connection.execute(f"SELECT t::text FROM holdfast.{name} t".encode()).fetchall() for (name,) in tables]
    return repr(rows).encode()


@pytest.mark.parametrize(
    ("fixture", "everything"),
    [("url", everything_in_the_file), ("migrated_url", everything_in_the_schema)],
    ids=["sqlite", "postgres"],
)
def test_a_secret_is_in_no_database_and_on_no_other_output(
    request: pytest.FixtureRequest, fixture: str, everything: Callable[[str], bytes]
) -> None:
    """ACCESS-1: as text, as bytes, as hexadecimal digits."""
    url: str = request.getfixturevalue(fixture)
    secret = create(url, name="findable-name", scope="admin")
    written = ""
    for arguments in (["keys"], ["keys", "--json"], ["keys", "revoke", secret[:25]], ["keys"], ["keys", "--json"]):
        done = run(*arguments, url=url)
        assert done.returncode == DONE
        written += done.stdout + done.stderr
    for stdin in (secret, secret[:-1], f"{secret}x", f"{secret}\n{secret}"):
        done = run("keys", "check", "--scope", "read", url=url, stdin=stdin)
        assert done.returncode == NOT_DONE
        written += done.stdout + done.stderr
    written += refused("keys", "check", "--scope", "read", secret, url=url, stdin=secret)
    written += refused("keys", "revoke", secret, url=url)
    proof = secret[26:]
    assert len(proof) == 43
    assert proof[:12] not in written
    kept = everything(url)
    assert b"findable-name" in kept
    for form in forms_of(proof):
        assert form not in kept


def forms_of(proof: str) -> list[bytes]:
    raw = base64.urlsafe_b64decode(f"{proof}=")
    return [proof.encode(), raw, raw.hex().encode(), base64.b64encode(raw)]


def test_a_key_is_taken_from_the_environment(url: str) -> None:
    secret = create(url)
    assert run("keys", "check", "--scope", "submit", url=url, HOLDFAST_KEY=secret).returncode == DONE
    assert run("keys", "check", "--scope", "submit", url=url, HOLDFAST_KEY=f" {secret}\n").returncode == DONE
    assert "not known" in refused(
        "keys", "check", "--scope", "submit", url=url, HOLDFAST_KEY=another(secret), stdin=secret, code=NOT_DONE
    ), "the environment counts where there are both"


def another(secret: str) -> str:
    """Of the same key, but wrong."""
    return secret[:26] + ("B" if secret[26] == "A" else "A") + secret[27:]


def test_on_a_terminal_a_key_is_asked_for_and_not_shown(url: str) -> None:
    secret = create(url)
    with Terminal("keys", "check", "--scope", "submit", "--url", url) as terminal:
        terminal.wait_for("key: ")
        terminal.press(f"{secret}\n".encode())
        terminal.wait_for("is good for submit")
        assert terminal.exit_code() == DONE
        assert secret[26:] not in terminal.text


def test_a_key_expires_by_itself(either_url: str) -> None:
    secret = create(either_url, "--expires", "1500ms")
    deadline = time.monotonic() + LONG_SECONDS
    while is_good(either_url, secret):
        assert time.monotonic() < deadline
    assert "expired" in refused("keys", "check", "--scope", "submit", url=either_url, stdin=secret, code=NOT_DONE)
    (key,) = run_json("keys", url=either_url)["keys"]
    assert key["state"] == "expired"


def test_a_leaked_key_is_revoked_by_how_it_begins(url: str) -> None:
    secret, other = create(url), create(url)
    line = refused("keys", "revoke", secret, url=url)
    assert f"write only how it begins: {secret[:25]}" in line
    assert is_good(url, secret)
    assert run("keys", "revoke", secret[:25], url=url).returncode == DONE
    assert (is_good(url, secret), is_good(url, other)) == (False, True)


def test_a_key_of_another_database_is_unknown(url: str, tmp_path: Path) -> None:
    secret = create(url)
    elsewhere = f"sqlite:///{tmp_path / 'other.db'}"
    assert run("migrate", url=elsewhere).returncode == DONE
    line = refused("keys", "check", "--scope", "submit", url=elsewhere, stdin=secret, code=NOT_DONE)
    assert line == refused("keys", "check", "--scope", "submit", url=url, stdin=another(secret), code=NOT_DONE)


@pytest.mark.parametrize("shown", ["", "\n", " \t"])
def test_no_key_at_all_is_a_mistake_in_the_call(url: str, shown: str) -> None:
    line = refused("keys", "check", "--scope", "read", url=url, stdin=shown)
    assert "$HOLDFAST_KEY" in line
    assert "standard input" in line


def test_what_is_no_text_is_no_key(url: str) -> None:
    command = [*COMMAND, "keys", "check", "--scope", "read", "--url", url]
    done = subprocess.run(command, input=b"\xff\0" * 5000, capture_output=True, env=environment(), check=False)
    assert (done.returncode, done.stdout) == (NOT_DONE, b"")
    (line,) = done.stderr.splitlines()
    assert b"not an API key" in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["create", "ci"], "--scope"),
        (["create", "--scope", "read"], "NAME"),
        (["create", "ci", "--scope", "root"], "read, submit, manage, admin"),
        (["create", "ci", "--scope", "read", "--expires", "soon"], "7d"),
        (["create", "ci", "--scope", "read", "--expires", "0"], "90d"),
        (["create", "ci", "--scope", "read", "--expires", "9999d"], "3650d"),
        (["check"], "--scope"),
        (["check", "--scope", "everything"], "read, submit, manage, admin"),
        (["revoke"], "ID"),
        (["revoke", "ci"], "holdfast keys"),
    ],
)
def test_a_wrong_argument_is_refused(url: str, arguments: list[str], said: str) -> None:
    line = refused("keys", *arguments, url=url)
    assert said in line
    assert "--help" in line
    assert run_json("keys", url=url) == {"keys": []}


@pytest.mark.parametrize("name", ["", "x" * 256, "two\nlines"])
def test_a_name_that_is_none_is_refused(url: str, name: str) -> None:
    assert refused("keys", "create", name, "--scope", "read", url=url).startswith("key: name: ")
    assert run_json("keys", url=url) == {"keys": []}


@pytest.mark.parametrize("written", [str(UUID(int=7)), public_part(UUID(int=7))], ids=["id", "public part"])
def test_a_key_that_is_not_there_cannot_be_revoked(url: str, written: str) -> None:
    assert "holdfast keys" in refused("keys", "revoke", written, url=url, code=NOT_DONE)


@pytest.mark.parametrize(
    "arguments", [["keys"], ["keys", "create", "ci", "--scope", "read"], ["keys", "revoke", str(uuid4())]]
)
def test_a_file_that_is_not_there_is_not_made(tmp_path: Path, arguments: list[str]) -> None:
    missing = tmp_path / "mistyped.db"
    assert "no database file" in refused(*arguments, url=f"sqlite:///{missing}")
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_is_away_is_no_answer_about_the_key(url: str) -> None:
    secret = create(url)
    done = run("keys", "check", "--scope", "submit", "--json", url=AWAY, stdin=secret)
    assert (done.returncode, done.stdout) == (NOT_DONE, "")
    assert secret[26:] not in done.stderr


def test_a_file_of_the_version_before_gets_its_place_for_keys(url: str) -> None:
    path = url.removeprefix("sqlite:///")
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE holdfast_api_key")
        connection.execute("ALTER TABLE holdfast_ready DROP COLUMN type")
        connection.execute('ALTER TABLE holdfast_job DROP COLUMN "group"')
        connection.execute("UPDATE holdfast_meta SET version = 2")
    assert is_good(url, create(url))


def test_no_key_yet_says_how_to_make_one(url: str) -> None:
    done = run("keys", url=url)
    assert (done.returncode, done.stdout) == (DONE, "")
    assert "holdfast keys create NAME --scope submit" in done.stderr


def test_a_name_cannot_harm_a_terminal(url: str) -> None:
    """The name of a key that another program has made; ours refuses control characters."""

    async def add(store: Store) -> None:
        await Access(store).create("right\u202eto left", scopes=[Scope.READ])

    with_store(url, add)
    assert "\u202e" not in run("keys", url=url).stdout
    assert run("keys", "create", "bell\a", "--scope", "read", url=url).returncode == WRONG
