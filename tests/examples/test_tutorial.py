"""The tutorial, walked as a reader would: its files, its worker, its commands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.programs import TIMEOUT_SECONDS, environment

ROOT = Path(__file__).parents[2]
TUTORIAL = (ROOT / "docs" / "tutorial" / "README.md").read_text(encoding="utf-8")
HOLDFAST = [sys.executable, "-m", "holdfast"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the files that the tutorial has the reader save."""
    for name, text in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", TUTORIAL, re.DOTALL):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HOLDFAST, *command], cwd=folder, env=environment(), capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )


def test_a_worker_of_its_own_runs_what_other_programs_submit(folder: Path) -> None:
    worker = subprocess.Popen(
        [*HOLDFAST, "worker", "jobs:app", "--processes", "2", "--log", "json"],
        cwd=folder,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        submitted = run(folder, "submit", "shout", "--payload", '{"text": "hello"}', "--wait", "--timeout", "60s")
        assert submitted.stdout.strip() == '"HELLO"', submitted.stderr
        program = subprocess.run(
            [sys.executable, "submit.py"], cwd=folder, env=environment(), capture_output=True, text=True
        )
        assert program.returncode == 0, program.stderr
        assert program.stdout
        whispered = run(folder, "submit", "whisper", "--payload", '{"text": "psst"}').stdout.strip()
        assert "whisper" in run(folder, "job", whispered, "--why").stdout
        assert "shout" in run(folder, "jobs").stdout
    finally:
        worker.terminate()
        said = worker.communicate(timeout=TIMEOUT_SECONDS)[1]
    assert worker.returncode == 0, said
    assert '"event": "worker_stopped"' in said
