"""``make mutants``: take each fix back, one at a time, in a copy of the tree; the tests named beside it must fail.

Exit code 1 where a mutant survives, where a test fails without one, or where an entry does not fit the code any more.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from rich.console import Console
from rich.progress import Progress

from mutants.table import HERE, BrokenTable, Mutant, load

ROOT: Final = HERE.parent
TIMEOUT_SECONDS: Final = 600.0
TESTS_FAILED: Final = 1
"""pytest's exit code; others mean that it could not run what was named."""
LINES_SHOWN: Final = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    is_good: bool
    text: str
    output: str = ""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="numbers, or words of their names")
    parser.add_argument("--list", action="store_true", help="say which there are")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("--skip-baseline", action="store_true", help="do not run the tests without a mutant first")
    options = parser.parse_args(arguments)
    console = Console(highlight=False)
    mutants = [mutant for mutant in load() if _is_wanted(mutant, options.only)]
    if options.list or not mutants:
        for mutant in mutants:
            console.print(f"{mutant}  ({', '.join(mutant.tests)})")
        return 0 if mutants else parser.error("no mutant has such a number or name; see --list")
    started = time.monotonic()
    with _copies(options.jobs) as copies:
        verdicts = _judge(mutants, copies, console, has_baseline=not options.skip_baseline)
    bad = sum(not verdict.is_good for verdict in verdicts)
    console.print(f"{len(mutants)} mutants, {bad} problems, {time.monotonic() - started:.0f} s")
    return 1 if bad else 0


def _is_wanted(mutant: Mutant, words: Sequence[str] | None) -> bool:
    return words is None or any(word == str(mutant.row) or word.lower() in mutant.name.lower() for word in words)


@contextmanager
def _copies(count: int) -> Iterator["SimpleQueue[Path]"]:
    """Copies of the tree as it stands, uncommitted changes included."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    files = [name for name in os.fsdecode(listed.stdout).split("\0") if name and (ROOT / name).is_file()]
    copies: SimpleQueue[Path] = SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for number in range(count):
            copy = Path(folder, str(number))
            for name in files:
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, copy / name)
            copies.put(copy)
        yield copies


def _judge(
    mutants: list[Mutant], copies: "SimpleQueue[Path]", console: Console, *, has_baseline: bool
) -> list[Verdict]:
    verdicts: list[Verdict] = []
    with (
        Progress(console=console, transient=True) as progress,
        ThreadPoolExecutor(max_workers=copies.qsize()) as pool,
    ):
        bar = progress.add_task("mutants", total=len(mutants) + has_baseline)
        calls = {pool.submit(_try, mutant, copies): str(mutant) for mutant in mutants}
        if has_baseline:
            tests = tuple(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
            calls[pool.submit(_try_unchanged, tests, copies)] = "   the tests without a mutant"
        for call in as_completed(calls):
            verdict = call.result()
            verdicts.append(verdict)
            colour = "green" if verdict.is_good else "red"
            console.print(f"{calls[call]}: [{colour}]{verdict.text}[/]")
            if verdict.output:
                console.print(verdict.output, markup=False)
            progress.advance(bar)
    return verdicts


def _try(mutant: Mutant, copies: "SimpleQueue[Path]") -> Verdict:
    copy = copies.get()
    before = {edit.file: (copy / edit.file).read_text() for edit in mutant.edits}
    try:
        for edit in mutant.edits:
            edit.apply(copy)
        codes = {test: _run(copy, (test,))[0] for test in mutant.tests}
    except BrokenTable as error:
        return Verdict(is_good=False, text=f"{mutant.source}: {error}")
    finally:
        for file, text in before.items():
            (copy / file).write_text(text)
        copies.put(copy)
    blind = [f"{test} (exit code {code})" for test, code in codes.items() if code != TESTS_FAILED]
    if blind:
        return Verdict(is_good=False, text=f"not noticed by {', '.join(blind)}")
    return Verdict(is_good=True, text="noticed")


def _try_unchanged(tests: tuple[str, ...], copies: "SimpleQueue[Path]") -> Verdict:
    copy = copies.get()
    try:
        code, output = _run(copy, tests)
    finally:
        copies.put(copy)
    tail = "\n".join(output.splitlines()[-LINES_SHOWN:])
    return Verdict(is_good=True, text="pass") if code == 0 else Verdict(is_good=False, text="fail", output=tail)


def _run(copy: Path, tests: tuple[str, ...]) -> tuple[int, str]:
    """pytest's exit code and output, of the copy's own code."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        # A mutant may well make a test hang; pytest's own limit ends it long before this.
        return TESTS_FAILED, f"no end after {TIMEOUT_SECONDS:.0f} s"
    return done.returncode, done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
