"""Samples of a worker that drains jobs at full speed, taken from outside by py-spy, in an environment of its own.

Nothing in the worker knows of it. Only threads at work are counted: one that waits for the server is no sample. Where
py-spy cannot be had, or may not look into another process, that is reported and there is no graph.
"""

import subprocess
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.curves.flame.fold import Stacks, at_work, read_stacks, tidied
from benchmarks.curves.session import Point, Session
from benchmarks.peers.environments import python_environment
from benchmarks.peers.programs import PeerFailed
from benchmarks.peers.visits import START_TIMEOUT_SECONDS, Visit

REQUIREMENTS: Final = Path(__file__).parent / "requirements.txt"
SAMPLES_A_SECOND: Final = 250
JOBS_A_SECOND: Final = 12_000
"""More than a worker that is watched can do: it must not run out of jobs."""
WARM_JOBS: Final = 500
TIMEOUT_SECONDS: Final = 60


def record(session: Session, point: Point) -> Stacks:
    program = python_environment("flame", REQUIREMENTS).bin / "py-spy"
    seconds = session.sizes.flame_seconds
    with session.visit(point) as visit, tempfile.TemporaryDirectory() as folder:
        visit.producer.tell("fill", jobs=int((seconds + 1) * JOBS_A_SECOND))
        visit.place.settle_down()
        visit.start_workers()
        visit.wait_for(WARM_JOBS, timeout_seconds=START_TIMEOUT_SECONDS)
        return _sample(program, visit, Path(folder) / "stacks", seconds)


def _sample(program: Path, visit: Visit, path: Path, seconds: float) -> Stacks:
    options = [
        "--duration",
        str(max(1, round(seconds))),
        "--rate",
        str(SAMPLES_A_SECOND),
        "--format",
        "raw",
        "--function",
        "--native",
    ]
    done = subprocess.run(
        [program, "record", "--pid", str(visit.worker_processes[0]), *options, "--output", path],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )
    if done.returncode != 0 or not path.exists():
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise PeerFailed(f"py-spy: {' / '.join(said[-2:])[:300] or 'it said nothing'}")
    stacks = tidied(at_work(read_stacks(path.read_text(encoding="utf-8"))))
    if not stacks:
        raise PeerFailed("py-spy saw the worker do nothing")
    return stacks
