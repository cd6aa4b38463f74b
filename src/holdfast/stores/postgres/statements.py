"""The statements for one schema, and the same for a repeat or for whoever waits for nobody."""

from typing import Final

from holdfast.core.errors import ConfigError
from holdfast.stores import statements

MAX_IDENTIFIER_CHARACTERS: Final = 63
"""PostgreSQL cuts longer names off."""
_ONCE: Final = {"repeated": "", "on_conflict": ""}
_REPEATED: Final = {"repeated": ", {replicated} AS replicated", "on_conflict": "{unless_there}"}


class Statements:
    """``statements["claim.lease"]`` is the text of the part ``lease`` in ``sql/claim.sql``."""

    def __init__(self, schema: str) -> None:
        self.schema = quoted(schema)
        self._given = {"schema": self.schema}
        self._texts = statements.statements_of(__package__, {**_ONCE, **self._given})

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def for_repeat(self, name: str) -> str:
        """The same statement where some of its rows may be there already."""
        return statements.statements_of(__package__, {**_REPEATED, **self._given})[name]

    def skipping_locked(self, name: str) -> str:
        """The same statement, but it leaves out what somebody else holds instead of waiting for it."""
        key = f"{name}, skipping locked"
        if key not in self._texts:
            self._texts[key] = self[name].replace("FOR UPDATE", "FOR UPDATE SKIP LOCKED")
        return self._texts[key]

    def fill(self, text: str) -> str:
        """What differs between schemas, and what comes from the transition table, is filled in here."""
        return statements.fill(text, self._given)


def quoted(schema: str) -> str:
    if not schema.isidentifier() or not schema.isascii() or len(schema) > MAX_IDENTIFIER_CHARACTERS:
        raise ConfigError(
            f"schema {schema!r}: use letters, digits and underscores, at most {MAX_IDENTIFIER_CHARACTERS}"
        )
    return f'"{schema}"'
