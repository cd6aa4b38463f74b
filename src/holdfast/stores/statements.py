"""The statements of a store, read once from the ``.sql`` files in its folder ``sql``: one loader for all stores.

A file has the name of its verb, the same in every store. It holds one statement, or several parts, each below a line
``-- [name]``: the part ``-- [find]`` of ``claim.sql`` is ``claim.find``, a file without parts is called as the file.
What stands above the first part is said of all of them, and sent with none. A statement begins with a comment that
names it, for whoever looks at what a server is busy with.

Where a name stands in braces something is filled in: a part of ``fragments.sql``, which is text that several statements
share; what comes from the table of transitions; and what the store gives, such as its schema. A name that nobody
gives is left, for the module that runs the statement.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from holdfast.core.dependencies import DependencyKind
from holdfast.core.states import DONE, REPLAYABLE, TERMINAL, WAITING, State

FRAGMENTS: Final = "fragments"
_PART: Final = re.compile(r"^-- \[(\w+)\]$", re.MULTILINE)
_COMMENT: Final = re.compile(r"\A(--.*\n)+")


def _literals(values: tuple[str, ...]) -> str:
    return ", ".join(f"'{value}'" for value in values)


_STATES: Final = {
    "states": _literals(tuple(State)),
    "waiting_states": _literals(WAITING),
    "ended_states": _literals(TERMINAL),
    "done_states": _literals(DONE),
    "dead_states": _literals(REPLAYABLE),
    "dependency_kinds": _literals(tuple(DependencyKind)),
}


def statements_of(package: str, given: Mapping[str, str]) -> dict[str, str]:
    """The statements of a store's package, with what the store gives."""
    every = _texts(package)
    shared = {**given, **{name: fill(text, given) for name, text in fragments_of(package).items()}}
    return {
        name: f"-- {name}\n{fill(text, shared)}" for name, text in every.items() if not name.startswith(f"{FRAGMENTS}.")
    }


def fragments_of(package: str) -> dict[str, str]:
    """Without the comments above them, to be filled in."""
    start = f"{FRAGMENTS}."
    return {
        name.removeprefix(start): _COMMENT.sub("", text)
        for name, text in _texts(package).items()
        if name.startswith(start)
    }


def fill(text: str, given: Mapping[str, str]) -> str:
    for name, value in {**_STATES, **given}.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def sql_files(package: str, folder: str) -> list[Traversable]:
    """The .sql files of one of a package's folders, in the order of their names."""
    found = [file for file in (files(package) / folder).iterdir() if file.name.endswith(".sql")]
    return sorted(found, key=lambda file: file.name)


@cache
def _texts(package: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    for file in sql_files(package, "sql"):
        verb = file.name.removesuffix(".sql")
        header, *parts = _PART.split(file.read_text(encoding="utf-8"))
        if not parts:
            texts[verb] = header.strip()
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            texts[f"{verb}.{name}"] = text.strip()
    return texts
