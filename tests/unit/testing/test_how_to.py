"""The tests that the how-to shows are run as tests, each in a folder of its own, by pytest."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[3] / "docs" / "how-to" / "testing.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
TESTS = [text for text in SNIPPETS if "import pytest" in text or "import unittest" in text]


@pytest.mark.parametrize("text", TESTS, ids=range(len(TESTS)))
def test_a_test_that_is_shown_passes(text: str, tmp_path: Path) -> None:
    (tmp_path / "test_shown.py").write_text(text, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shown.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stdout
    assert f"{len(re.findall('def test_', text))} passed" in run.stdout
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".db"] == []


def test_the_message_that_is_shown_is_the_one_that_comes(tmp_path: Path) -> None:
    shown = re.findall(r"```text\nAssertionError: (.*?)\n```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    program = """
from holdfast import Holdfast, testing
app = Holdfast()
@app.job
async def send_mail(to: str, subject: str) -> None: ...
with testing.run(app) as jobs:
    send_mail.submit_sync("bob@example.org", "Welcome")
    try:
        jobs.assert_submitted_once(send_mail, to="ann@example.org")
    except AssertionError as error:
        print(error)
"""
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert [run.stdout.strip()] == shown
