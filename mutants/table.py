"""The table of mutants: which text of which file is put back to what it was, and which tests must fail then."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent


class BrokenTable(Exception):
    """An entry cannot be read, or does not fit the code any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    file: str
    find: str
    replace: str

    def apply(self, root: Path) -> None:
        path = root / self.file
        text = path.read_text()
        if (count := text.count(self.find)) != 1:
            raise BrokenTable(
                f"{self.file} has this text {count} times, not once; bring the entry up to date:\n{self.find}"
            )
        path.write_text(text.replace(self.find, self.replace))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    row: int
    name: str
    tests: tuple[str, ...]
    edits: tuple[Edit, ...]
    source: str

    def __str__(self) -> str:
        return f"{self.row:>2} {self.name}"


def load(folder: Path = HERE) -> list[Mutant]:
    found = [mutant for path in sorted(folder.glob("*.toml")) for mutant in _read(path)]
    return sorted(found, key=lambda mutant: mutant.row)


def _read(path: Path) -> Iterable[Mutant]:
    for entry in tomllib.loads(path.read_text())["mutant"]:
        try:
            yield _mutant(entry, path.name)
        except (KeyError, TypeError) as error:
            raise BrokenTable(f"{path.name}: {entry.get('name', 'an entry without a name')}: {error!r}") from error


def _mutant(entry: dict[str, Any], source: str) -> Mutant:
    mutant = Mutant(
        row=entry["row"],
        name=entry["name"],
        tests=tuple(entry["tests"]),
        edits=tuple(Edit(**edit) for edit in entry["edit"]),
        source=source,
    )
    if not mutant.tests or not mutant.edits:
        raise BrokenTable(f"{source}: {mutant.name}: needs at least one test and one edit")
    return mutant
