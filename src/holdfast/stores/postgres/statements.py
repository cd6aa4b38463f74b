"""The SQL files, loaded once and given their schema's name."""

import re
from functools import cache
from importlib.resources import files
from typing import Final

from holdfast.core.dependencies import DependencyKind
from holdfast.core.errors import ConfigError
from holdfast.core.states import DONE, REPLAYABLE, TERMINAL, WAITING

MAX_IDENTIFIER_CHARACTERS: Final = 63
"""PostgreSQL cuts longer names off."""
_PART: Final = re.compile(r"^-- \[(\w+)\]$", re.MULTILINE)
REPLICATED: Final = "pg_logical_emit_message(true, 'holdfast', 'repeat')"
"""Makes the commit of a transaction that writes nothing else wait as if it did. What it found may be of a transaction
whose wait for a synchronous standby was broken off, together with the connection: it can be seen, but has perhaps not
reached the standby, so it must not be answered as accepted yet."""


class Statements:
    """``statements["claim"]`` is the text of ``sql/claim.sql`` for one schema."""

    def __init__(self, schema: str) -> None:
        self.schema = quoted(schema)
        self._texts: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self._texts:
            self._texts[name] = self.fill(_file(f"sql/{name}.sql")).replace("{on_conflict}", "")
        return self._texts[name]

    def for_repeat(self, name: str) -> str:
        """The same statement where some of its rows may be there already."""
        text = self.fill(_file(f"sql/{name}.sql")).replace("AS now\n", f"AS now, {REPLICATED} AS replicated\n", 1)
        return text.replace("{on_conflict}", "ON CONFLICT (id) DO NOTHING")

    def skipping_locked(self, name: str) -> str:
        """The same statement, but it leaves out what somebody else holds instead of waiting for it."""
        key = f"{name}, skipping locked"
        if key not in self._texts:
            self._texts[key] = self[name].replace("FOR UPDATE", "FOR UPDATE SKIP LOCKED")
        return self._texts[key]

    def parts(self, name: str) -> dict[str, str]:
        """The statements of a file that holds several, by the names above them."""
        _, *parts = _PART.split(self[name])
        return {part: text.strip() for part, text in zip(parts[::2], parts[1::2], strict=True)}

    def fill(self, text: str) -> str:
        """What differs between schemas, and what comes from the transition table, is filled in here."""
        return (
            text.replace("{schema}", self.schema)
            .replace("{waiting_states}", _literals(WAITING))
            .replace("{ended_states}", _literals(TERMINAL))
            .replace("{done_states}", _literals(DONE))
            .replace("{dead_states}", _literals(REPLAYABLE))
            .replace("{dependency_kinds}", _literals(tuple(DependencyKind)))
        )


def quoted(schema: str) -> str:
    if not schema.isidentifier() or not schema.isascii() or len(schema) > MAX_IDENTIFIER_CHARACTERS:
        raise ConfigError(
            f"schema {schema!r}: use letters, digits and underscores, at most {MAX_IDENTIFIER_CHARACTERS}"
        )
    return f'"{schema}"'


def _literals(values: tuple[str, ...]) -> str:
    return ", ".join(f"'{value}'" for value in values)


@cache
def _file(path: str) -> str:
    return (files(__package__) / path).read_text(encoding="utf-8")
