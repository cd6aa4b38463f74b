"""What the documents show is run, and what they name is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATTERNS = ("*.md", "docs/**/*.md", "src/**/*.md", "benchmarks/*.md")
DOCUMENTS = [path for pattern in PATTERNS for path in sorted(ROOT.glob(pattern))]
SNIPPETS = [
    pytest.param(text, id=f"{path.relative_to(ROOT)}:{number}")
    for path in DOCUMENTS
    for number, text in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL))
]


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_a_snippet_runs(snippet: str, tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    for expected in re.findall(r"print\(.*\)  # (.*)", snippet):
        assert expected in run.stdout


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_link_leads_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []
