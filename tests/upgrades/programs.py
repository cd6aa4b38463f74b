"""Programs of an earlier version and of today on one database: the code of a commit, a small app, its processes."""

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
APP = '''
import asyncio, os
import holdfast
from holdfast import Holdfast

assert holdfast.__file__.startswith(os.environ["CODE"])

app = Holdfast(os.environ["HOLDFAST_URL"])


def note(number: int) -> None:
    with open(os.path.join(os.environ["RUNS"], str(os.getpid())), "a") as runs:
        runs.write(f"{number}\\n")


@app.job
async def quick(number: int) -> None:
    note(number)


@app.job
async def slow(number: int) -> None:
    """Its lease is held for a while."""
    await asyncio.sleep(0.5)
    note(number)


@app.job
def in_a_thread(number: int) -> None:
    note(number)


JOBS = (quick, slow, in_a_thread)
'''
SUBMITS = '''
"""Prints the numbers that were accepted. Every third one has a key."""
import asyncio, sys
from load import JOBS, app


async def main(first: int, last: int) -> None:
    async with app:
        for number in range(first, last):
            job = JOBS[number % 7 % 3]
            options = {"key": f"number {number}"} if number % 3 == 0 else {}
            await job.options(**options).submit(number)
            print(number, flush=True)
            await asyncio.sleep(0.005)


asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
'''
STOP_SECONDS = 60.0


def require_code_of(commit: str, folder: Path) -> Path:
    """The folder to import from. Says plainly where the history is not there."""
    archive = subprocess.run(["git", "archive", commit, "src"], cwd=REPOSITORY, capture_output=True, check=False)
    if archive.returncode:
        raise AssertionError(
            f"this test runs programs of commit {commit}, which needs the git history of this repository "
            f"(git fetch --unshallow): {archive.stderr.decode().strip()}"
        )
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    # It looks for Alembic wherever it opens a PostgreSQL store, and uses it in its own `migrate` only.
    (folder / "src" / "alembic").mkdir()
    (folder / "src" / "alembic" / "__init__.py").touch()
    return folder / "src"


@dataclass
class Programs:
    url: str
    folder: Path
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.folder / "runs").mkdir()
        (self.folder / "load.py").write_text(APP, encoding="utf-8")
        (self.folder / "submits.py").write_text(SUBMITS, encoding="utf-8")

    def start(self, name: str, code: Path, *arguments: str) -> subprocess.Popen[str]:
        path = os.pathsep.join([str(code), str(self.folder)])
        given = {"PYTHONPATH": path, "HOLDFAST_URL": self.url, "RUNS": str(self.folder / "runs"), "CODE": str(code)}
        with self.log(name).open("w") as errors:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=self.folder,
                env={**os.environ, **given},
                stdout=(self.folder / f"{name}.out").open("w"),
                stderr=errors,
                text=True,
            )
        self.running.append(process)
        return process

    def worker(self, name: str, code: Path) -> subprocess.Popen[str]:
        return self.start(name, code, "-m", "holdfast", "worker", "load:app", "--name", name, "--concurrency", "8")

    def submitter(self, name: str, code: Path, first: int, last: int) -> subprocess.Popen[str]:
        return self.start(name, code, "submits.py", str(first), str(last))

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def accepted(self, *names: str) -> set[int]:
        outs = [(self.folder / f"{name}.out").read_text(encoding="utf-8") for name in names]
        return {int(line) for out in outs for line in out.split()}

    def runs(self) -> Counter[int]:
        return sum((self.runs_of(int(path.name)) for path in (self.folder / "runs").iterdir()), Counter[int]())

    def runs_of(self, pid: int) -> Counter[int]:
        path = self.folder / "runs" / str(pid)
        # The last line may be half there.
        return Counter(map(int, path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else ()))

    async def stop(self, *processes: subprocess.Popen[str]) -> list[int]:
        for process in processes:
            process.terminate()
        return [await asyncio.to_thread(process.wait, STOP_SECONDS) for process in processes]


@contextmanager
def programs(url: str, folder: Path) -> Iterator[Programs]:
    given = Programs(url, folder)
    try:
        yield given
    finally:
        for process in given.running:
            process.kill()
            process.wait()
