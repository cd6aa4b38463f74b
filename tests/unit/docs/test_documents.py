"""What the documents show is run, and what they name is there.

A Python snippet runs as a program of its own, in an empty folder. One that begins with ``# jobs.py`` is saved under
that name, and the snippets behind it in the same document find it there. ``postgresql://localhost/app`` stands for a
fresh database with Holdfast's tables. A command of ours is read by the real parser, wherever it stands.
"""

import argparse
import asyncio
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.stores.postgres import migrate
from tests.unit.docs import shell_commands

ROOT = Path(__file__).parents[3]
PATTERNS = ("*.md", "docs/**/*.md", "src/**/*.md", "benchmarks/*.md", "examples/*.md")
DOCUMENTS = [path for pattern in PATTERNS for path in sorted(ROOT.glob(pattern))]
DATABASE = "postgresql://localhost/app"
OURS = ("HOLDFAST_URL", "HOLDFAST_LOGS", "HOLDFAST_KEY", "WORKER_ID")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in OURS}


def fenced(document: Path, *languages: str) -> list[str]:
    """The blocks in these languages, without the indentation of a list."""
    pattern = rf"^( *)```(?:{'|'.join(languages)})\n(.*?)^ *```"
    blocks = re.findall(pattern, document.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [re.sub(rf"^{indentation}", "", text, flags=re.MULTILINE) for indentation, text in blocks]


def file_name(snippet: str) -> str | None:
    found = re.match(r"# (\w+\.py)\n", snippet)
    return found[1] if found else None


def snippets() -> Iterator[object]:
    for document in DOCUMENTS:
        texts = fenced(document, "python")
        for number, text in enumerate(texts):
            yield pytest.param(text, texts[:number], id=f"{document.relative_to(ROOT)}:{number}")


def commands() -> Iterator[object]:
    for document in DOCUMENTS:
        place = document.relative_to(ROOT)
        blocks = fenced(document, "console", "sh", "ini", "dockerfile", "yaml")
        found = [words for block in blocks for words in shell_commands.in_block(block)]
        yield from (pytest.param(words, id=f"{place}: {' '.join(words)}"[:120]) for words in found)


@pytest.mark.parametrize(("snippet", "before"), list(snippets()))
def test_a_snippet_runs(snippet: str, before: list[str], tmp_path: Path, request: pytest.FixtureRequest) -> None:
    for text in before:
        if (name := file_name(text)) is not None:
            (tmp_path / name).write_text(text, encoding="utf-8")
    text = snippet
    if DATABASE in text:
        url: str = request.getfixturevalue("postgres_url")
        asyncio.run(migrate.upgrade(url))
        text = text.replace(DATABASE, url)
    program = tmp_path / (file_name(text) or "snippet.py")
    program.write_text(text, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    for expected in re.findall(r"print\(.*\)  # (.*)", snippet):
        assert expected in run.stdout


@pytest.mark.parametrize("words", list(commands()))
def test_a_command_is_one_that_the_parser_takes(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("{}"))
    try:
        shell_commands.parse(words)
    except (SystemExit, argparse.ArgumentTypeError) as refused:
        pytest.fail(f"{' '.join(words)}: {refused} {capsys.readouterr().err}")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_command_in_the_text_has_the_options_it_is_shown_with(document: Path) -> None:
    text = re.sub(r"^ *```.*?^ *```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert [said for said in re.findall(r"`(holdfast [^`]+)`", text) if not shell_commands.is_known(said)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_link_leads_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_link_to_a_heading_finds_it(document: Path) -> None:
    missing = []
    for link, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", document.read_text(encoding="utf-8")):
        target = document.parent / link if link else document
        if target.suffix == ".md" and anchor not in headings(target):
            missing.append(f"{link}#{anchor}")
    assert missing == []


def headings(document: Path) -> set[str]:
    """As GitHub makes anchors of them."""
    titles = re.findall(r"^#+ (.*)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
