"""Where a child process finds a handler, and what it says when it does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.core.errors import UsageError
from holdfast.core.failures import Category
from holdfast.worker.processes import Returned, require_importable
from tests.unit.worker import isolated
from tests.unit.worker.bench import Bench, IsolatedJob, died, raised, returned

ROOT = Path(__file__).parents[3]


def test_a_function_inside_another_is_refused_with_the_remedy() -> None:
    def inner() -> None: ...

    with pytest.raises(UsageError, match="at the top of its module"):
        require_importable(inner)
    with pytest.raises(UsageError, match="at the top of its module"):
        require_importable(lambda: None)
    require_importable(isolated.double.handler.function)


def program(text: str, path: Path) -> list[str]:
    path.write_text(text)
    return [sys.executable, str(path)]


def run_program(command: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)


SCRIPT = """
import asyncio, sys
from holdfast.worker.processes import ProcessPool
from tests.unit.worker.bench import Bench, isolated

@isolated()
def triple(number: int) -> int:
    return 3 * number

async def main():
    pool = ProcessPool(size=1)
    print(await Bench(pool).run(triple, number=7))
    await pool.close()

"""
GUARDED = SCRIPT + 'if __name__ == "__main__":\n    asyncio.run(main())\n'


def test_a_handler_in_the_script_that_was_started_is_found(tmp_path: Path) -> None:
    done = run_program(program(GUARDED, tmp_path / "script.py"), tmp_path)
    assert "Returned(result=b'21'" in done.stdout, done.stderr
    # By a relative name, and as a module of a package.
    done = run_program([sys.executable, "script.py"], tmp_path)
    assert "Returned(result=b'21'" in done.stdout, done.stderr
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "jobs.py").write_text(GUARDED)
    done = run_program([sys.executable, "-m", "package.jobs"], tmp_path)
    assert "Returned(result=b'21'" in done.stdout, done.stderr


APP = """
import asyncio
from holdfast import Context, Holdfast

app = Holdfast("memory://", logs="off")

@app.job(isolation="process")
def square(ctx: Context, number: int) -> int:
    return number * number

@app.job(isolation="process")
async def begin(ctx: Context) -> str:
    return str(ctx.spawn(square.call(9)))

async def main():
    async with app, app.worker(concurrency=2):
        print("square", await (await square.submit(12)).result(timeout=60))
        child = await (await begin.submit()).result(timeout=60)
        print("spawned", (await app.get(child)).type)

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_job_types_of_an_app_are_found_and_can_be_spawned(tmp_path: Path) -> None:
    done = run_program(program(APP, tmp_path / "script.py"), tmp_path)
    assert done.stdout.splitlines() == ["square 144", "spawned square"], done.stderr


def test_a_script_without_a_guard_is_told_the_remedy_and_starts_no_children_of_children(tmp_path: Path) -> None:
    done = run_program(program(SCRIPT + "asyncio.run(main())\n", tmp_path / "script.py"), tmp_path)
    assert 'under if __name__ == "__main__":' in done.stdout, done.stderr
    assert done.stdout.count("Raised(") == 1


def test_a_handler_that_was_typed_in_is_refused_with_the_remedy(tmp_path: Path) -> None:
    text = "from holdfast.worker.processes import require_importable\ndef typed(): ...\nrequire_importable(typed)\n"
    done = run_program([sys.executable, "-c", text], tmp_path)
    assert "put it in a file of its own" in done.stderr


def test_a_module_loaded_from_its_file_under_another_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(SCRIPT)
    text = (
        "import asyncio, importlib.util, sys\n"
        "spec = importlib.util.spec_from_file_location('made_up.name', 'jobs.py')\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "sys.modules['made_up.name'] = module\n"
        "spec.loader.exec_module(module)\n"
        "asyncio.run(module.main())\n"
    )
    done = run_program([sys.executable, "-c", text], tmp_path)
    assert "Returned(result=b'21'" in done.stdout, done.stderr


async def test_a_module_that_cannot_be_imported_fails_the_job_with_the_reason(bench: Bench) -> None:
    def lost() -> None: ...

    lost.__module__, lost.__qualname__ = "no_such_module", "lost"
    for _ in range(2):
        failure = raised(await bench.run(IsolatedJob(lost))).failure
        assert (failure.category, failure.code) == (Category.SYSTEM, "handler_not_found")
        assert "No module named 'no_such_module'" in failure.message
    lost.__module__ = "tests.unit.worker.isolated"
    failure = raised(await bench.run(IsolatedJob(lost))).failure
    assert "has no job type 'lost'" in failure.message
    assert await bench.run(isolated.double, number=1) == Returned(b"2")


@pytest.mark.parametrize("text", ["raise RuntimeError('not today')", "import sys; sys.exit('not today')"])
def test_a_module_that_fails_when_a_child_imports_it_fails_the_job_with_the_reason(tmp_path: Path, text: str) -> None:
    (tmp_path / "jobs.py").write_text(f"import sys\nif '-c' not in sys.orig_argv[-2:]: {text}\n" + SCRIPT)
    done = run_program([sys.executable, "-c", "import asyncio, jobs; asyncio.run(jobs.main())"], tmp_path)
    assert "could not import jobs" in done.stdout, done.stderr
    assert "not today" in done.stdout


async def test_a_child_that_cannot_be_started_is_told_and_not_tried_in_a_hot_loop(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.worker.children.PROGRAM", "import os, sys; os.write(1, b'.'); sys.exit(8)")
    calls = [bench.start(isolated.double, number=number) for number in range(3)]
    first = died(await calls[0].outcome())
    assert "could not be started: exited with code 8" in first
    assert bench.pool._restart is not None
    monkeypatch.undo()
    assert [returned(await call.outcome()) for call in calls[1:]] == [2, 4]


async def test_an_interpreter_that_is_not_there_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiprocessing.spawn.get_executable", lambda: "/no/such/python")
    assert "could not be started: FileNotFoundError" in died(await bench.run(isolated.double, number=1))
