"""``holdfast dev``, ``bench`` and ``cron``: the commands that run an app themselves."""

import signal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from holdfast.core.commands import Fire
from holdfast.core.ports import Store
from holdfast.testing.factories import new_job
from tests.integration.cli.conftest import with_store
from tests.integration.cli.programs import (
    DONE,
    INTERRUPTED,
    NOT_DONE,
    WRONG,
    Program,
    Terminal,
    refused,
    run,
    run_json,
)

OWN = """
from holdfast import Holdfast

app = Holdfast()


@app.job
async def greet(name: str) -> str:
    print("greeting", name)
    return f"Hello, {name}"


@app.cron("0 2 * * *", timezone="Europe/Berlin", queue="night")
async def nightly() -> None: ...
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def own(folder: Path) -> Path:
    (folder / "own.py").write_text(OWN)
    return folder


# dev


def test_the_sample_runs_for_a_while_and_sums_up(folder: Path) -> None:
    done = run("dev", "--for", "7", "--rate", "20", cwd=folder, HOLDFAST_URL="postgresql://127.0.0.1:1/never")
    assert done.returncode == DONE, done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    for expected in ("greet COMPLETED", "refund FAILED", "1 worker"):
        assert expected in done.stdout
    summary = done.stdout[done.stdout.index("submitted") :]
    for expected in ("submitted", "completed", "failed", "jobs/s"):
        assert expected in summary
    # Everything it leaves behind is in one folder that no repository takes.
    assert {path.name for path in folder.iterdir()} == {".holdfast"}
    assert (folder / ".holdfast" / ".gitignore").read_text() == "*\n"
    require_one_of_each(run_json("jobs", "--limit", "1000", url=f"sqlite:///{folder}/.holdfast/dev.db")["jobs"])


def require_one_of_each(jobs: list[dict[str, Any]]) -> None:
    seen = {(job["type"], job["state"]) for job in jobs}
    for name in ("greet", "resize", "count_words", "find_prime", "fetch", "summarise", "publish"):
        assert (name, "COMPLETED") in seen
    assert {("refund", "FAILED"), ("notify", "DEAD_LETTER")} <= seen


def test_the_summary_is_one_object(folder: Path) -> None:
    data = run_json("dev", "--for", "4", cwd=folder)
    assert data["submitted"] >= data["completed"] > 0
    assert data["per_second"] > 0


@pytest.mark.parametrize(
    ("end", "code"), [(b"q", DONE), (b"\x03", INTERRUPTED), (signal.SIGTERM, DONE)], ids=["q", "Ctrl-C", "SIGTERM"]
)
def test_a_terminal_gets_a_live_view(folder: Path, end: bytes | signal.Signals, code: int) -> None:
    with Terminal("dev", cwd=folder) as terminal:
        terminal.wait_for("holdfast dev")
        terminal.wait_for("dev-1")
        terminal.wait_for("payments")
        terminal.wait_for("greet COMPLETED")
        if isinstance(end, bytes):
            terminal.press(end)
        else:
            terminal.signal(end)
        terminal.wait_for("submitted")
        assert terminal.exit_code() == code
    assert terminal.written.rindex("\x1b[?1049l") > terminal.written.rindex("\x1b[?1049h")
    assert "Traceback" not in terminal.text


def test_ctrl_c_without_a_terminal_sums_up_too(folder: Path) -> None:
    with Program("dev", cwd=folder) as program:
        program.wait_for("greet COMPLETED")
        program.signal(signal.SIGINT)
        assert program.exit_code() == INTERRUPTED
    assert "submitted" in program.text
    assert "Traceback" not in program.text


def test_an_own_app_is_run_and_restarted(own: Path, url: str) -> None:
    with Program("dev", "own:app", "--url", url, cwd=own) as program:
        program.wait_for("serves")
        assert run("submit", "greet", "--payload", '{"name": "Ada"}', "--wait", url=url).stdout == '"Hello, Ada"\n'
        program.wait_for("greeting Ada")
        program.wait_for("greet COMPLETED")
        (own / "own.py").write_text(OWN.replace("Hello", "Good morning"))
        program.wait_for("own.py changed")
        program.wait_for("serves", times=2)
        greeted = run("submit", "greet", "--payload", '{"name": "Bob"}', "--wait", url=url)
        assert greeted.stdout == '"Good morning, Bob"\n'
        program.signal(signal.SIGTERM)
        assert program.exit_code() == DONE
    # The load is the user's own.
    assert not (own / ".holdfast").exists()


def test_dev_refuses_what_worker_refuses(own: Path, url: str, postgres_url: str) -> None:
    assert "write own:app" in refused("dev", "own:nothing", url=url, cwd=own)
    assert "run: holdfast migrate --url" in refused("dev", "own:app", url=postgres_url, cwd=own)
    done = run("dev", "--connect-timeout", "1", url="postgresql://postgres@127.0.0.1:1/a", cwd=own)
    assert done.returncode == NOT_DONE


def test_a_worker_that_cannot_stay_up_ends_dev(own: Path, url: str) -> None:
    (own / "fleeting.py").write_text(OWN + "\nimport os, sys\nif 'worker' in sys.argv: os._exit(3)\n")
    with Program("dev", "fleeting:app", "--no-reload", "--url", url, cwd=own) as program:
        assert program.exit_code() == NOT_DONE
    assert "giving up" in program.text


# bench


def test_bench_measures_on_a_file_that_is_gone_afterwards(folder: Path) -> None:
    data = run_json("bench", "--jobs", "500", cwd=folder, HOLDFAST_URL="postgresql://127.0.0.1:1/never")
    assert data["submit"]["jobs"] == data["drain"]["jobs"] == 500
    assert data["drain"]["per_second"] > 0
    assert list(folder.iterdir()) == []


def test_bench_uses_a_queue_of_its_own(migrated_url: str) -> None:
    done = run("bench", "--jobs", "300", "--batch", "100", url=migrated_url)
    assert done.returncode == DONE, done.stderr
    assert "drain" in done.stdout
    (queue,) = run_json("queues", url=migrated_url)["queues"]
    assert queue["name"].startswith("bench-")
    assert queue["counts"]["COMPLETED"] == 300


def test_bench_draws_bars_on_a_terminal(folder: Path) -> None:
    with Terminal("bench", "--jobs", "3000", cwd=folder) as terminal:
        terminal.wait_for("3000/3000", times=2)
        assert terminal.exit_code() == DONE
    assert "Jobs/s" in terminal.text


def test_bench_on_an_unmigrated_database_is_refused(postgres_url: str) -> None:
    assert "run: holdfast migrate --url" in refused("bench", url=postgres_url)


# cron


def test_periodic_jobs_are_listed_with_their_next_slot(own: Path, url: str) -> None:
    assert "--app" in run("cron", url=url).stderr
    (line,) = run_json("cron", "--app", "own:app", url=url, cwd=own)["cron"]
    assert (line["name"], line["expression"], line["timezone"]) == ("nightly", "0 2 * * *", "Europe/Berlin")
    assert line["next_slot"].endswith("+00:00")
    assert line["last_slot"] is None
    shown = run("cron", "--app", "own:app", url=url, cwd=own).stdout
    assert "never" in shown


def test_slots_that_have_fired_are_known_without_the_code(url: str) -> None:
    async def fire(store: Store) -> UUID:
        now = (await store.read_cron()).now
        job = new_job()
        await store.fire([Fire(name="nightly", slot=now, job=job)])
        return job.id

    job_id = with_store(url, fire)
    (line,) = run_json("cron", url=url)["cron"]
    assert (line["name"], line["last_job_id"], line["next_slot"]) == ("nightly", str(job_id), None)
    assert "nightly" in run("cron", url=url).stdout


def test_a_periodic_job_is_run_now(own: Path, url: str) -> None:
    data = run_json("cron", "run", "nightly", "--app", "own:app", url=url, cwd=own)
    (job,) = run_json("jobs", url=url)["jobs"]
    assert (job["id"], job["type"], job["queue"]) == (data["id"], "nightly", "night")
    assert run("cron", "--app", "own:app", "run", "nightly", url=url, cwd=own).returncode == DONE
    assert "it has: nightly" in refused("cron", "run", "daily", "--app", "own:app", url=url, cwd=own, code=WRONG)
    assert "--app MODULE:APP" in refused("cron", "run", "nightly", url=url)
