"""The codes of invariants: each is stated once, cited only where it exists, and listed in ``core/README.md``."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "src" / "holdfast"
INDEX = PACKAGE / "core" / "README.md"
FOLDERS = ("src", "tests", "chaos", "soak", "models", "mutants", "benchmarks", "docs", "examples", "tools", "proto")
SUFFIXES = {".py", ".md", ".sql", ".toml", ".tla", ".cfg", ".proto"}

# Stated: at the start of a docstring's line, "PORT-1. Every verb …"; in a README, "**PORT-1**".
STATED = {
    ".py": re.compile(r"^ *([A-Z]{3,}-\d{1,2})\. ", re.MULTILINE),
    ".md": re.compile(r"\*\*([A-Z]{3,}-\d{1,2})\.?\*\*"),
}
CITED = re.compile(r"\b([A-Z]{3,}-\d{1,2})\b(?![-.]\d)")
# A name cannot have a hyphen: STATE_1_OneState.
CITED_BY_A_MODEL = re.compile(r"\b([A-Z]{3,})_(\d{1,2})_[A-Z]")
# A letter and a number, stated or cited as codes are: in brackets, in bold, or at the start of a line or a docstring.
WITHOUT_A_WORD = re.compile(
    r"^ *[A-Z]{1,2}\d{1,2}\. [A-Z`]|\*\*[A-Z]{1,2}\d{1,2}\.?\*\*"
    r"|(?<!\w)\([A-Z]{1,2}\d{1,2}(?:\)|,| to)|\"{3}[A-Z]{1,2}\d{1,2}[.:,\"]",
    re.MULTILINE,
)
NOT_OURS = {"CRC-32", "UTF-8", "UTF-16", "UTF-32"}


def texts() -> Iterator[tuple[Path, str]]:
    yield from ((path, path.read_text()) for path in sorted(ROOT.glob("*.md")))
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and not {"node_modules", "generated", "__pycache__"} & set(path.parts):
                yield path, path.read_text()


@pytest.fixture(scope="module")
def tree() -> dict[Path, str]:
    return dict(texts())


@pytest.fixture(scope="module")
def stated(tree: dict[Path, str]) -> list[tuple[str, Path]]:
    return [
        (code, path)
        for path, text in tree.items()
        for code in (STATED[path.suffix].findall(text) if path.suffix in STATED else ())
    ]


def test_every_code_is_stated_once(stated: list[tuple[str, Path]]) -> None:
    counts = Counter(code for code, _ in stated)
    assert {code for code, count in counts.items() if count > 1} == set()
    files: dict[str, set[Path]] = {}
    for code, path in stated:
        files.setdefault(word_of(code), set()).add(path)
    assert {word: paths for word, paths in files.items() if len(paths) > 1} == {}


def test_every_code_that_is_cited_is_stated(tree: dict[Path, str], stated: list[tuple[str, Path]]) -> None:
    known = {code for code, _ in stated} | NOT_OURS
    unknown = {
        (str(path.relative_to(ROOT)), code)
        for path, text in tree.items()
        for code in (*CITED.findall(text), *("-".join(found) for found in CITED_BY_A_MODEL.findall(text)))
        if code not in known
    }
    assert unknown == set()


def test_no_code_lacks_the_word_of_its_module(tree: dict[Path, str]) -> None:
    found = {(str(path.relative_to(ROOT)), one) for path, text in tree.items() for one in WITHOUT_A_WORD.findall(text)}
    assert found == set()


def test_the_index_lists_every_code_with_its_file(stated: list[tuple[str, Path]]) -> None:
    listed: list[tuple[str, Path]] = []
    for first, last, name in re.findall(
        r"^\| ([A-Z]+-\d+)(?:(?:,| to) ([A-Z]+-\d+))? \| `([\w./]+)` \|", INDEX.read_text(), re.MULTILINE
    ):
        folder = PACKAGE if (PACKAGE / name).exists() else ROOT
        listed += [
            (f"{word_of(first)}-{n}", folder / name) for n in range(number_of(first), number_of(last or first) + 1)
        ]
    assert sorted(listed) == sorted(stated)


def word_of(code: str) -> str:
    return code.partition("-")[0]


def number_of(code: str) -> int:
    return int(code.partition("-")[2])
