"""The SQL files, loaded once: ``SQL["claim.find"]`` is the part ``-- [find]`` of ``sql/claim.sql``.

SQLite has no statement that writes several tables, so a verb that is one statement in PostgreSQL is a few here; they
stay together in the file that has the verb's name. A file without parts is one statement: ``SQL["read"]``.
"""

import re
import sqlite3
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

from holdfast.core.dependencies import DependencyKind
from holdfast.core.priority import Priority
from holdfast.core.states import REPLAYABLE, TERMINAL, WAITING, State

_NUMBERS: Final = tuple(map(str, range(1, 1001)))
_PART: Final = re.compile(r"^-- \[(\w+)\]$", re.MULTILINE)
_FACTS: Final = (
    "j.seq, j.id, j.type, j.queue, j.priority, j.depth, j.created_at, j.run_at, "
    "j.max_attempts, j.visibility_seconds, j.lifetime_seconds, j.spawned_by"
)
_NOTED: Final = (
    "n.percent, n.message, n.checkpoint, (SELECT p.id FROM holdfast_job p WHERE p.seq = j.spawned_by) AS spawned_by_id"
)
_PRIORITIES: Final = tuple(map(int, Priority))
_LANE: Final = """SELECT * FROM (
            SELECT r.* FROM holdfast_ready r INDEXED BY holdfast_ready_claim
            WHERE r.queue = ?1 AND r.priority = {priority} AND r.place > ?{after} AND r.lifetime_ends_at > ?2
                AND (?4 IS NULL OR coalesce(r.type, (SELECT f.type FROM holdfast_job f WHERE f.seq = r.job))
                    IN (SELECT value FROM json_each(?4)))
            ORDER BY r.place LIMIT ?3
        )"""
_LANES: Final = " UNION ALL ".join(_LANE.format(priority=n, after=6 + n) for n in _PRIORITIES)
"""The queue's jobs in claim order, each priority from its own place on."""
_LEFT: Final = (
    "(SELECT max(place) FROM holdfast_ready INDEXED BY holdfast_ready_claim WHERE queue = ?1 AND priority = {})"
)
_LEFTS: Final = ", ".join(_LEFT.format(n) for n in _PRIORITIES)


def fill(text: str) -> str:
    """What several statements share, and what comes from the transition table, is filled in here."""
    return (
        text.replace("{facts}", _FACTS)
        .replace("{noted}", _NOTED)
        .replace("{lanes}", _LANES)
        .replace("{lefts}", _LEFTS)
        .replace("{states}", _literals(tuple(State)))
        .replace("{waiting_states}", _literals(WAITING))
        .replace("{ended_states}", _literals(TERMINAL))
        .replace("{dead_states}", _literals(REPLAYABLE))
        .replace("{dependency_kinds}", _literals(tuple(DependencyKind)))
    )


@cache
def with_marks(name: str, count: int, *, after: int) -> str:
    """A statement with a list of ``count`` values: JSON cannot carry the bytes that ids and tokens are.

    They stand after ``after`` others.
    """
    return SQL[name].replace("{marks}", ", ".join(f"?{number}" for number in range(after + 1, after + count + 1)))


def bound(sql: str, values: Sequence[Any]) -> Sequence[Any] | Mapping[str, Any]:
    """Values for a statement. To Python ``?1`` is a name, and from 3.14 on it takes names from a mapping only."""
    return dict(zip(_NUMBERS, values, strict=False)) if "?1" in sql else values


def execute(cursor: sqlite3.Cursor, name: str, *values: Any) -> sqlite3.Cursor:
    sql = SQL[name]
    return cursor.execute(sql, bound(sql, values))


def sql_files(folder: str) -> list[Traversable]:
    """The .sql files of one of this package's folders, in the order of their names."""
    found = [file for file in (files(__package__) / folder).iterdir() if file.name.endswith(".sql")]
    return sorted(found, key=lambda file: file.name)


def _literals(values: tuple[str, ...]) -> str:
    return ", ".join(f"'{value}'" for value in values)


def _load() -> dict[str, str]:
    statements: dict[str, str] = {}
    for file in sql_files("sql"):
        verb = file.name.removesuffix(".sql")
        header, *parts = _PART.split(fill(file.read_text(encoding="utf-8")))
        if not parts:
            statements[verb] = header.strip()
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            statements[f"{verb}.{name}"] = text.strip()
    return statements


SQL: Final = _load()
