"""mypy and pyright both refuse what is wrong, line by line, and know the types of what is right."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BIN = Path(sys.executable).parent
MARK = "  # refused"
TIMEOUT_SECONDS = 300

Lines = dict[str, set[int]]
"""The lines that a checker refuses, by the file's name."""


def refused_by_mypy(files: list[Path]) -> Lines:
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", *map(str, files)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert run.returncode in (0, 1), run.stdout + run.stderr
    found = re.findall(r"^(.+?):(\d+): error: ", run.stdout, re.MULTILINE)
    return {str(file): {int(line) for name, line in found if Path(name).name == file.name} for file in files}


def refused_by_pyright(files: list[Path]) -> Lines:
    command = [str(BIN / "pyright"), "--outputjson", "--pythonpath", sys.executable, *map(str, files)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert run.returncode in (0, 1), run.stdout + run.stderr
    report = json.loads(run.stdout)
    assert report["summary"]["filesAnalyzed"] == len(files)
    found = [(one["file"], one["range"]["start"]["line"] + 1) for one in report["generalDiagnostics"]]
    return {str(file): {line for name, line in found if Path(name).name == file.name} for file in files}


@pytest.mark.parametrize("refused_by", [refused_by_mypy, refused_by_pyright])
def test_a_type_checker_refuses_the_marked_lines_and_no_other(
    refused_by: Callable[[list[Path]], Lines], tmp_path: Path
) -> None:
    _, rest = (HERE / "bad.py").read_text(encoding="utf-8").split("\n", maxsplit=1)
    bad = tmp_path / "bad.py"
    # The first line keeps `make check` away; without it every line stays where it was.
    bad.write_text("\n" + rest, encoding="utf-8")
    marked = {number for number, line in enumerate(rest.split("\n"), start=2) if line.endswith(MARK)}
    assert len(marked) > 30
    good = HERE / "good.py"
    assert refused_by([good, bad]) == {str(good): set(), str(bad): marked}
