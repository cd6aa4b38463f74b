"""``holdfast worker``: from ``module:app`` to a graceful end, alone and as several processes."""

import json
import os
import signal
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from holdfast.core.commands import WorkerInfo
from holdfast.core.job import Job
from holdfast.core.states import State
from holdfast.testing.factories import read_one
from tests.integration.cli.conftest import with_store
from tests.integration.cli.programs import (
    DONE,
    INTERRUPTED,
    NOT_DONE,
    WRONG,
    Program,
    Terminal,
    eventually,
    refused,
    run,
    run_json,
)
from tests.servers import PostgresServer
from tests.servers.postgres import children_of

SHOP = """
import asyncio, os, time
from holdfast import Context, Holdfast

app = Holdfast()


@app.job
async def greet(name: str) -> str:
    print("greeting", name)
    return f"Hello, {name}"


@app.job(queue="slow")
async def sleep(ctx: Context, seconds: float) -> int:
    ctx.progress(1, "asleep")
    await asyncio.sleep(seconds)
    return os.getpid()


@app.job(queue="slow")
def block() -> None:
    time.sleep(3600)
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with an app in it; ``shop:app`` there."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "shop.py").write_text(SHOP)
    return folder


def job_of(url: str, job_id: str) -> Job:
    return with_store(url, lambda store: read_one(store, UUID(job_id)))


def workers_of(url: str) -> list[WorkerInfo]:
    return with_store(url, lambda store: store.read_workers())


def submit(url: str, name: str, payload: str = "{}", *options: str) -> str:
    return str(run_json("submit", name, "--payload", payload, *options, url=url)["id"])


def start_sleeping(url: str, seconds: float) -> str:
    job_id = submit(url, "sleep", f'{{"seconds": {seconds}}}', "--queue", "slow")
    eventually(lambda: (job := job_of(url, job_id)).state is State.RUNNING and job.progress is not None)
    return job_id


def alive(url: str) -> list[str]:
    return sorted(one["name"] for one in run_json("workers", url=url)["workers"] if not one["is_lost"])


# one process


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, DONE), (signal.SIGINT, INTERRUPTED)], ids=["SIGTERM", "SIGINT"]
)
def test_it_runs_jobs_and_a_signal_lets_those_that_run_finish(
    url: str, shop: Path, number: signal.Signals, code: int
) -> None:
    with Program("worker", "shop:app", "--url", url, cwd=shop) as worker:
        worker.wait_for("serves")
        assert run("submit", "greet", "--payload", '{"name": "Ada"}', "--wait", url=url).stdout == '"Hello, Ada"\n'
        worker.wait_for("greeting Ada")
        job_id = start_sleeping(url, 2)
        worker.signal(number)
        worker.wait_for("running jobs may finish")
        assert worker.exit_code() == code
    assert job_of(url, job_id).state is State.COMPLETED
    assert "Traceback" not in worker.text
    assert run_json("workers", url=url)["workers"] == []


def test_a_second_signal_stops_at_once_and_spends_no_attempt(url: str, shop: Path) -> None:
    with Program("worker", "shop:app", "--url", url, cwd=shop) as worker:
        job_id = start_sleeping(url, 3600)
        worker.signal(signal.SIGTERM)
        worker.wait_for("once more")
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == DONE
    job = job_of(url, job_id)
    assert (job.state, job.attempt) == (State.SCHEDULED, 0)


def test_what_is_not_done_within_the_grace_time_is_handed_back(url: str, shop: Path) -> None:
    with Program("worker", "shop:app", "--grace", "200ms", "--url", url, cwd=shop) as worker:
        job_id = start_sleeping(url, 3600)
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == DONE
    assert job_of(url, job_id).attempt == 0


def test_a_thread_that_never_returns_does_not_keep_it(url: str, shop: Path) -> None:
    with Program("worker", "shop:app", "--grace", "0", "--url", url, cwd=shop) as worker:
        job_id = submit(url, "block", "{}", "--queue", "slow")
        eventually(lambda: job_of(url, job_id).state is State.RUNNING)
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == DONE


def test_ctrl_c_on_a_terminal_ends_it_without_a_traceback(url: str, shop: Path) -> None:
    with Terminal("worker", "shop:app", "--url", url, cwd=shop) as worker:
        worker.wait_for("serves")
        worker.press(b"\x03")
        assert worker.exit_code() == INTERRUPTED
    assert "Traceback" not in worker.text


def test_queues_limits_and_name_are_passed_on(url: str, shop: Path) -> None:
    options = ("--queues", "slow=3,default=1", "--limit", "slow=1", "--name", "one", "--concurrency", "4")
    with Program("worker", "shop:app", *options, "--url", url, cwd=shop) as worker:
        worker.wait_for("worker one serves")
        (data,) = run_json("workers", url=url)["workers"]
        assert set(data["queues"]) == {"slow", "default"}
        assert set(data["types"]) == {"greet", "sleep", "block"}
        first = start_sleeping(url, 3600)
        second = submit(url, "sleep", '{"seconds": 1}', "--queue", "slow")
        assert run("submit", "greet", "--payload", '{"name": "A"}', "--wait", url=url).returncode == DONE
        assert job_of(url, first).state is State.RUNNING
        assert job_of(url, second).state is State.SCHEDULED
        worker.signal(signal.SIGTERM)
        worker.wait_for("once more")
        worker.signal(signal.SIGTERM)


def test_a_job_that_no_worker_knows_waits_and_says_why(url: str, shop: Path) -> None:
    with Program("worker", "shop:app", "--url", url, cwd=shop) as worker:
        worker.wait_for("serves")
        job_id = submit(url, "unknown")
        assert run("submit", "greet", "--payload", '{"name": "A"}', "--wait", url=url).returncode == DONE
        assert job_of(url, job_id).state is State.SCHEDULED, "those behind it do not wait for it"
        assert "'unknown'" in run("job", job_id, "--why", url=url).stdout


# what is wrong


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("shop", "write shop:app"),
        ("shop:", "write shop:app"),
        ("shop:application", "shop has no 'application'; write shop:app"),
        ("shop:asyncio", "is a module, no app; write shop:app"),
        ("shop.py:app", "holdfast worker shop:app"),
        ("./shop.py", "holdfast worker shop:app"),
        ("sop:app", "no module 'sop'"),
        ("shop.jobs:app", "no module 'shop.jobs'"),
        ("sh op:app", "not a module"),
        (":app", "not a module"),
        ("empty:app", "empty has no app at all"),
        ("jobless:app", "@app.job"),
        ("needy:app", "needs module 'not_installed'"),
        ("broken:app", "NameError: name 'undefined' is not defined"),
        ("unfinished:app", "SyntaxError"),
        ("leaving:app", "sys.exit"),
        ("twice:app", "two functions are called"),
    ],
)
def test_an_app_that_cannot_be_had_is_refused(url: str, shop: Path, target: str, said: str) -> None:
    (shop / "empty.py").write_text("value = 1")
    (shop / "jobless.py").write_text("from holdfast import Holdfast\napp = Holdfast()")
    (shop / "needy.py").write_text("import not_installed")
    (shop / "broken.py").write_text("value = 1\nvalue = undefined")
    (shop / "unfinished.py").write_text("def f(:")
    (shop / "leaving.py").write_text("import sys\nsys.exit(3)")
    (shop / "twice.py").write_text(
        "from holdfast import Holdfast\napp = Holdfast()\n"
        "@app.job(name='a')\ndef one() -> None: ...\n@app.job(name='a')\ndef two() -> None: ...\n"
    )
    assert said in refused("worker", target, url=url, cwd=shop)


def test_an_import_error_names_the_line(url: str, shop: Path) -> None:
    (shop / "broken.py").write_text("value = 1\nvalue = undefined")
    line = refused("worker", "broken:app", url=url, cwd=shop)
    assert f"{shop / 'broken.py'}, line 2" in line


def test_a_url_against_the_apps_own_is_refused(url: str, shop: Path) -> None:
    (shop / "pinned.py").write_text(SHOP.replace("Holdfast()", "Holdfast('sqlite:///own.db')"))
    assert "leave out --url" in refused("worker", "pinned:app", url=url, cwd=shop)


@pytest.mark.parametrize(
    "options", [["--queues", "a,,b"], ["--queues", "a=x"], ["--limit", "a"], ["--limit", "elsewhere=2"]]
)
def test_a_wrong_option_is_refused(url: str, shop: Path, options: list[str]) -> None:
    refused("worker", "shop:app", *options, url=url, cwd=shop)


def test_a_database_file_that_is_deleted_ends_it(url: str, shop: Path) -> None:
    path = url.removeprefix("sqlite:///")
    with Program("worker", "shop:app", "--url", url, cwd=shop) as worker:
        worker.wait_for("serves")
        # It has opened the file for its heartbeat, too.
        eventually(lambda: [one.seen_at > one.registered_at for one in workers_of(url)] == [True])
        for suffix in ("", "-wal", "-shm"):
            Path(f"{path}{suffix}").unlink()
        assert worker.exit_code() == WRONG
    assert f"{path} was deleted or moved while it was open; stop all processes" in worker.text.splitlines()[-1]


def test_a_database_file_that_is_moved_ends_a_busy_worker(url: str, shop: Path) -> None:
    path = Path(url.removeprefix("sqlite:///"))
    with Program(
        "worker", "shop:app", "--url", url, "--concurrency", "1", "--queues", "slow", "--grace", "0.1", cwd=shop
    ) as worker:
        job_id = submit(url, "sleep", '{"seconds": 3600}', "--queue", "slow")
        eventually(lambda: job_of(url, job_id).progress is not None)
        path.rename(path.with_name("moved.db"))
        assert worker.exit_code() == WRONG
    assert "was deleted or moved while it was open" in worker.text


def test_a_database_file_that_is_moved_ends_all_processes_and_no_new_one_is_made(url: str, shop: Path) -> None:
    path = Path(url.removeprefix("sqlite:///"))
    with Program("worker", "shop:app", "--url", url, "--processes", "2", cwd=shop) as worker:
        worker.wait_for("serves", times=2)
        # Each has opened the file for its heartbeat, too.
        eventually(lambda: [one.seen_at > one.registered_at for one in workers_of(url)] == [True, True])
        path.rename(path.with_name("moved.db"))
        assert worker.exit_code() == WRONG
    assert not path.exists()


def test_an_unmigrated_database_is_refused(postgres_url: str, shop: Path) -> None:
    assert "run: holdfast migrate --url" in refused("worker", "shop:app", url=postgres_url, cwd=shop)


def test_a_database_that_stays_away_ends_it(shop: Path) -> None:
    done = run("worker", "shop:app", "--connect-timeout", "1", url="postgresql://postgres@127.0.0.1:1/a", cwd=shop)
    assert done.returncode == NOT_DONE
    assert "trying again for 1 s" in done.stderr


def test_a_database_that_comes_later_is_waited_for(private_postgres: PostgresServer, shop: Path) -> None:
    url = private_postgres.url()
    assert run("migrate", url=url).returncode == DONE
    private_postgres.stop()
    with Program("worker", "shop:app", "--url", url, cwd=shop) as worker:
        worker.wait_for("trying again for 60 s")
        private_postgres.start()
        worker.wait_for("serves")
        assert run("submit", "greet", "--payload", '{"name": "Ada"}', "--wait", url=url).returncode == DONE


def test_a_database_that_takes_nothing_at_its_start_is_waited_for(postgres_url: str, shop: Path) -> None:
    assert run("migrate", url=postgres_url).returncode == DONE
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END $$"
        )
        connection.execute("CREATE TRIGGER full_disk BEFORE INSERT ON holdfast.worker EXECUTE FUNCTION full_disk()")
        with Program("worker", "shop:app", "--url", postgres_url, cwd=shop) as worker:
            worker.wait_for("trying again for 60 s")
            connection.execute("DROP TRIGGER full_disk ON holdfast.worker")
            worker.wait_for("serves")
            done = run("submit", "greet", "--payload", '{"name": "Ada"}', "--wait", url=postgres_url)
            assert done.returncode == DONE


def test_a_signal_while_it_waits_for_the_database_ends_it(shop: Path) -> None:
    with Program("worker", "shop:app", "--url", "postgresql://postgres@127.0.0.1:1/a", cwd=shop) as worker:
        worker.wait_for("trying again")
        worker.signal(signal.SIGINT)
        assert worker.exit_code() == INTERRUPTED
    assert "Traceback" not in worker.text


@pytest.mark.parametrize("command", [["worker"], ["dev"], ["cron", "--app"]], ids=lambda words: words[0])
def test_ctrl_c_ends_an_import_that_takes_for_ever(url: str, shop: Path, command: list[str]) -> None:
    (shop / "endless.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(3600)")
    with Program(*command, "endless:app", "--url", url, cwd=shop) as program:
        program.wait_for("importing")
        program.signal(signal.SIGINT)
        assert program.exit_code() == INTERRUPTED
    assert "Traceback" not in program.text


def test_its_log_is_json_lines_where_asked_for(url: str, shop: Path) -> None:
    with Program("worker", "shop:app", "--log", "json", "--url", url, cwd=shop) as worker:
        worker.wait_for("worker_started")
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == DONE
    events = [json.loads(line)["event"] for line in worker.text.splitlines()]
    assert {"worker_started", "worker_stopped"} <= set(events)


# several processes


def test_several_processes_work_and_a_dead_one_is_replaced(url: str, shop: Path) -> None:
    with Program("worker", "shop:app", "--processes", "2", "--name", "m", "--url", url, cwd=shop) as worker:
        worker.wait_for("serves", times=2)
        assert alive(url) == ["m-1", "m-2"]
        killed = submit(url, "sleep", '{"seconds": 0.01}', "--queue", "slow", "--wait")
        pid = run_json("job", killed, url=url)["result"]
        os.kill(pid, signal.SIGKILL)
        worker.wait_for("was killed by SIGKILL")
        worker.wait_for("serves", times=3)
        job_id = start_sleeping(url, 2)
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == DONE
    assert job_of(url, job_id).state is State.COMPLETED
    assert "Traceback" not in worker.text


STUCK = """
import time
from holdfast import Holdfast, Retry

app = Holdfast()


@app.job(timeout=0.1, retry=Retry(max_attempts=1))
def deaf() -> None:
    time.sleep(3600)


@app.job
async def greet(name: str) -> str:
    return f"Hello, {name}"
"""


def test_a_process_whose_handlers_never_return_says_so_and_is_replaced(url: str, shop: Path) -> None:
    (shop / "stuck.py").write_text(STUCK)
    options = ("--processes", "2", "--concurrency", "1", "--grace", "0.2")
    with Program("worker", "stuck:app", *options, "--url", url, cwd=shop) as worker:
        worker.wait_for("serves", times=2)
        submit(url, "deaf", "{}")
        worker.wait_for("slots are held by handlers that did not return after they were ended: deaf")
        worker.wait_for("ended with exit code 1")
        worker.wait_for("serves", times=3)
        submit(url, "greet", '{"name": "you"}', "--wait")
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == DONE


def test_ctrl_c_reaches_each_process_once(url: str, shop: Path) -> None:
    with Terminal("worker", "shop:app", "--processes", "2", "--url", url, cwd=shop) as worker:
        worker.wait_for("serves", times=2)
        job_id = start_sleeping(url, 2)
        worker.press(b"\x03")
        assert worker.exit_code() == INTERRUPTED
    assert job_of(url, job_id).state is State.COMPLETED
    assert "Traceback" not in worker.text


def test_a_signal_to_the_supervisor_and_its_processes_alike_lets_jobs_finish(url: str, shop: Path) -> None:
    """As systemd does it: one wish, heard twice by every process."""
    with Program("worker", "shop:app", "--processes", "2", "--url", url, cwd=shop) as worker:
        worker.wait_for("serves", times=2)
        job_id = start_sleeping(url, 2)
        for pid in (*children_of(worker.pid), worker.pid):
            os.kill(pid, signal.SIGTERM)
        assert worker.exit_code() == DONE
    assert job_of(url, job_id).state is State.COMPLETED


def test_a_second_signal_stops_all_at_once(url: str, shop: Path) -> None:
    with Program("worker", "shop:app", "--processes", "2", "--url", url, cwd=shop) as worker:
        worker.wait_for("serves", times=2)
        job_id = start_sleeping(url, 3600)
        worker.signal(signal.SIGINT)
        worker.wait_for("once more", times=2)
        worker.signal(signal.SIGINT)
        assert worker.exit_code() == INTERRUPTED
    assert job_of(url, job_id).attempt == 0


def test_a_wrong_set_up_ends_all_of_them(url: str, shop: Path) -> None:
    with Program("worker", "shop:nothing", "--processes", "2", "--url", url, cwd=shop) as worker:
        assert worker.exit_code() == WRONG
    assert "shop has no 'nothing'" in worker.text
    assert "giving up" not in worker.text


def test_processes_whose_supervisor_is_gone_finish_and_end(url: str, shop: Path) -> None:
    with Program("worker", "shop:app", "--processes", "2", "--url", url, cwd=shop) as worker:
        worker.wait_for("serves", times=2)
        worker.signal(signal.SIGKILL)
        worker.wait_for("the supervisor is gone", times=2)
        eventually(lambda: run_json("workers", url=url)["workers"] == [])


def test_a_changed_file_restarts_it(url: str, shop: Path) -> None:
    with Program("worker", "shop:app", "--reload", "--url", url, cwd=shop) as worker:
        worker.wait_for("serves")
        (shop / "shop.py").write_text(SHOP.replace("Hello", "Good morning"))
        worker.wait_for("shop.py changed; starting again")
        worker.wait_for("serves", times=2)
        greeted = run("submit", "greet", "--payload", '{"name": "Ada"}', "--wait", url=url)
        assert greeted.stdout == '"Good morning, Ada"\n'
        (shop / "shop.py").write_text("def f(:")
        worker.wait_for("SyntaxError")
        worker.wait_for("waiting for a file to change")
        (shop / "shop.py").write_text(SHOP)
        worker.wait_for("serves", times=3)
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == DONE
    assert "Traceback" not in worker.text
