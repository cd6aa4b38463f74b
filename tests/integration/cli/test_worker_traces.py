"""What is stored of a handler's error: the user's own, and nothing of how the worker was started."""

from pathlib import Path
from uuid import UUID

import pytest

from holdfast.core.job import Job
from holdfast.testing.factories import read_one
from tests.integration.cli.conftest import with_store
from tests.integration.cli.programs import Program, eventually, run_json

BROKEN = """
from holdfast import Holdfast, Retry

app = Holdfast()
ONCE = Retry(max_attempts=1)


def fail() -> None:
    raise KeyError("the user's own")


@app.job(retry=ONCE)
async def on_loop() -> None:
    fail()


@app.job(retry=ONCE)
def in_thread() -> None:
    fail()


@app.job(retry=ONCE, isolation="process")
async def in_process() -> None:
    fail()


@app.job(retry=ONCE)
async def chained() -> None:
    try:
        fail()
    except KeyError:
        raise ValueError("while that was handled")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An app whose handlers fail, in an environment without uvloop, as the default install is."""
    made = tmp_path / "work"
    made.mkdir()
    (made / "broken.py").write_text(BROKEN)
    (made / "uvloop.py").write_text("raise ModuleNotFoundError('no uvloop here')")
    return made


def ended(url: str, job_id: str) -> Job:
    def look() -> Job | None:
        job = with_store(url, lambda store: read_one(store, UUID(job_id)))
        return job if job.state.is_terminal else None

    return eventually(look)


def test_a_stored_trace_has_the_users_error_only(url: str, folder: Path) -> None:
    names = ("on_loop", "in_thread", "in_process", "chained")
    ids = {name: str(run_json("submit", name, url=url)["id"]) for name in names}
    with Program("worker", "broken:app", "--url", url, cwd=folder, PYTHONPATH=str(folder)) as worker:
        worker.wait_for("serves")
        traces = {}
        for name, job_id in ids.items():
            failure = ended(url, job_id).failure
            assert failure is not None
            traces[name] = failure.trace
    for name, trace in traces.items():
        first, frame, *_ = trace.splitlines()
        assert first == "Traceback (most recent call last):"
        assert f'{folder / "broken.py"}"' in frame, (name, trace)
        assert "uvloop" not in trace
        assert trace.count("Traceback") == (2 if name == "chained" else 1), (name, trace)
