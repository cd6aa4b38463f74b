"""Files of migrations, and which programs may work on which schema: the same for every SQL store.

Each file, ``migrations/NNNN_name.sql``, raises the schema's number by one. It only adds, so that programs of earlier
versions go on beside it. It says which ones: ``-- compatible since 0004`` means those whose own newest migration is
0004 or later. A database keeps that number beside its own, for programs that were written before the migration.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

_NAME: Final = re.compile(r"(\d{4})_\w+\.sql")
_COMPATIBLE: Final = re.compile(r"^-- compatible since (\d{4})$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    number: int
    compatible_since: int
    text: str


@dataclass(frozen=True, slots=True)
class Schema:
    """What a database says of itself; 0: it has no tables."""

    number: int
    compatible_since: int

    def suits(self, own: int) -> bool:
        """Whether a program whose newest migration is ``own`` may work on it."""
        return self.compatible_since <= own <= self.number


@cache
def migrations_of(package: str) -> tuple[Migration, ...]:
    """In their order."""
    found = ((_NAME.fullmatch(file.name), file) for file in (files(package) / "migrations").iterdir())
    texts = {int(match[1]): file.read_text(encoding="utf-8") for match, file in found if match}
    return tuple(_migration(number, texts[number]) for number in sorted(texts))


def _migration(number: int, text: str) -> Migration:
    (since,) = _COMPATIBLE.findall(text)
    return Migration(number=number, compatible_since=int(since), text=text)


def newest(migrations: Sequence[Migration]) -> Schema:
    last = migrations[-1]
    return Schema(last.number, last.compatible_since)
