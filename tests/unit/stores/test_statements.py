"""The statements of the SQL stores live in ``.sql`` files, the same ones in both, and none is left over."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

import pytest

from holdfast.stores.postgres.statements import Statements
from holdfast.stores.sqlite.statements import SQL

STORES: Final = ("postgres", "sqlite")
FOLDERS: Final = {store: Path(str(files(f"holdfast.stores.{store}"))) for store in STORES}
TEXTS: Final = {"postgres": Statements("holdfast")._texts, "sqlite": SQL}

STATEMENT: Final = re.compile(
    r"^\s*(SELECT|INSERT|UPDATE|DELETE|LOCK|WITH|CREATE|ALTER|DROP)\s+(\w|[*$]|\{)"
    r"|\b(FROM\s+(\{|\w+_)|WHERE\s+\w+(\.\w+)?\s+(=|IS|IN)|ORDER BY|GROUP BY|ON CONFLICT)"
)
"""What a connection is told (BEGIN, SAVEPOINT, SET, PRAGMA) is not a statement of a verb."""
BEGUN: Final = "SELECT 1"
"""How a transaction of SQLAlchemy's is begun."""

ONLY_POSTGRES: Final = {
    "connection": "the server's clock, and the types that the driver asks about",
    "doctor_server": "SQLite has no server whose state could be examined",
    "presence": "SQLite's workers prove their presence by a lock on a file",
}

OWN_MODULES: Final = {
    "postgres": {
        *("database", "pool", "hosts", "connections"),  # a server, and how it is reached
        *("locks", "telling", "marks", "floors", "sweeps"),  # others at work in the same rows, and dead ones
        *("steps", "version"),  # a migration beside programs at work
    },
    "sqlite": {
        *("connection", "files", "changes", "standstill"),  # a file, and what other processes do to it
        *("connection_thread", "writer", "reader", "threads", "caller"),  # a connection belongs to one thread
    },
}

FILLED_LATER: Final = {
    "postgres": {
        *("candidates", "check", "examples", "parts", "rows", "state", "tally_wrong"),
        *("number", "since", "table", "index"),  # of a migration
    },
    "sqlite": {"candidates", "check", "examples", "marks", "state"},
}


@cache
def strings(store: str) -> dict[str, list[str]]:
    """By module: its strings, but for what documents it. What an f-string fills in is a pair of braces."""
    return {
        file.name: list(_strings_of(ast.parse(file.read_text(encoding="utf-8"))))
        for file in sorted(FOLDERS[store].glob("*.py"))
    }


def _strings_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.Expr(value=ast.Constant()):
                pass
            case ast.JoinedStr(values=values):
                yield "".join(one.value if isinstance(one, ast.Constant) else "{}" for one in values)  # type: ignore[misc]
            case ast.Constant(value=str(text)):
                yield text
            case _:
                yield from _strings_of(node)


@pytest.mark.parametrize("store", STORES)
def test_no_module_holds_a_statement(store: str) -> None:
    found = [
        f"{store}/{module}: {text}"
        for module, texts in strings(store).items()
        for text in texts
        if STATEMENT.search(text) and text != BEGUN
    ]
    assert not found


@pytest.mark.parametrize("store", STORES)
def test_every_statement_is_used(store: str) -> None:
    names = {text for texts in strings(store).values() for text in texts if re.fullmatch(r"\w+(\.[\w{}]+)?", text)}
    used = [re.compile(re.escape(name).replace(r"\{\}", r"\w+")) for name in names]
    assert not [name for name in TEXTS[store] if not any(one.fullmatch(name) for one in used)]


def test_both_stores_have_the_same_files() -> None:
    found = {store: {file.stem for file in (FOLDERS[store] / "sql").glob("*.sql")} for store in STORES}
    assert found["postgres"] - found["sqlite"] == set(ONLY_POSTGRES)
    assert found["sqlite"] <= found["postgres"]


def test_both_stores_have_the_same_modules_but_for_what_one_database_needs() -> None:
    found = {store: {module.removesuffix(".py") for module in strings(store)} for store in STORES}
    assert found["postgres"] - found["sqlite"] == OWN_MODULES["postgres"]
    assert found["sqlite"] - found["postgres"] == OWN_MODULES["sqlite"]


@pytest.mark.parametrize("store", STORES)
def test_every_file_begins_with_what_it_is_for(store: str) -> None:
    for file in (FOLDERS[store] / "sql").glob("*.sql"):
        assert file.read_text(encoding="utf-8").startswith("-- "), file.name


@pytest.mark.parametrize("store", STORES)
def test_nothing_is_left_to_be_filled_in(store: str) -> None:
    left = {word for text in TEXTS[store].values() for word in re.findall(r"\{(\w+)\}", text)}
    assert left == FILLED_LATER[store]
