"""``holdfast top``: on a terminal, without one, and for programs."""

import asyncio
import signal
from uuid import UUID

import pytest

from holdfast.core.ports import Store
from holdfast.core.states import State
from holdfast.testing.factories import COMPLETED, claim, new_job, register, settle, submit_jobs
from tests.integration.cli.conftest import with_store
from tests.integration.cli.programs import DONE, INTERRUPTED, Terminal, run, run_json
from tests.servers import PostgresServer

Jobs = dict[State, UUID]


async def complete(store: Store, count: int) -> None:
    await submit_jobs(store, *(new_job(queue="fast") for _ in range(count)))
    worker = await register(store, "machine-1")
    for job in await claim(store, worker, queues=("fast",), limit=count):
        await settle(store, job, COMPLETED)


def test_a_snapshot_is_one_object(url: str, filled: Jobs) -> None:
    data = run_json("top", "--interval", "100ms", url=url)
    queues = {queue["name"]: queue for queue in data["queues"]}
    assert queues["scheduled"]["counts"]["SCHEDULED"] == 1
    assert data["oldest_scheduled_at"] is not None
    assert data["throughput_per_second"] == 0
    assert {job["id"] for job in data["failures"]} == {
        str(filled[state]) for state in (State.FAILED, State.DEAD_LETTER, State.RETRYING)
    }
    errors = {job["state"]: job["failure"]["message"] for job in data["failures"]}
    assert errors["RETRYING"] == "the service is away"


def test_without_a_terminal_it_prints_one_plain_snapshot(url: str, filled: Jobs) -> None:
    done = run("top", "--interval", "100ms", url=url)
    assert (done.returncode, done.stderr) == (DONE, "")
    assert "1 running" in done.stdout
    assert "jobs/s" in done.stdout
    assert "LookupError: no such customer" in done.stdout
    assert "\x1b" not in done.stdout


def test_once_is_plain_on_a_terminal_too(url: str, filled: Jobs) -> None:
    with Terminal("top", "--once", "--interval", "100ms", "--url", url) as terminal:
        assert terminal.exit_code() == DONE
    assert "\x1b" not in terminal.written
    assert "jobs/s" in terminal.text


def test_it_shows_what_happens_while_it_happens(url: str, filled: Jobs) -> None:
    with Terminal("top", "--interval", "200ms", "--url", url) as terminal:
        terminal.wait_for("holdfast top")
        terminal.wait_for("LookupError: no such cust")
        assert "fast" not in terminal.text.replace("holdfast", "")
        with_store(url, lambda store: complete(store, 30))
        terminal.wait_for("machine-1")
        terminal.wait_for("\nfast ")
        with_store(url, lambda store: store.pause("scheduled"))
        terminal.wait_for("scheduled (paused)")
        terminal.press(b"q")
        assert terminal.exit_code() == DONE


@pytest.mark.parametrize(
    ("end", "code"), [(b"q", DONE), (b"\x03", INTERRUPTED), (signal.SIGINT, INTERRUPTED), (signal.SIGTERM, DONE)]
)
def test_the_terminal_is_left_as_it_was(url: str, end: bytes | signal.Signals, code: int) -> None:
    with Terminal("top", "--url", url) as terminal:
        terminal.wait_for("q quits")
        assert terminal.settings != terminal.settings_before
        if isinstance(end, bytes):
            terminal.press(end)
        else:
            terminal.signal(end)
        terminal.wait_for_end()
        assert terminal.settings == terminal.settings_before
        assert terminal.exit_code() == code
    assert terminal.written.rindex("\x1b[?1049l") > terminal.written.rindex("\x1b[?1049h")
    assert terminal.written.rindex("\x1b[?25h") > terminal.written.rindex("\x1b[?25l")
    assert "Traceback" not in terminal.text


def test_it_survives_the_database(private_postgres: PostgresServer) -> None:
    from holdfast.stores.postgres import migrate

    url = private_postgres.url()
    asyncio.run(migrate.upgrade(url))
    with Terminal("top", "--interval", "200ms", "--url", url) as terminal:
        terminal.wait_for("q quits")
        private_postgres.stop()
        terminal.wait_for("trying again")
        private_postgres.start()
        shown = terminal.text.count("q quits")
        terminal.wait_for("q quits", times=shown + 2)
        terminal.press(b"q")
        assert terminal.exit_code() == DONE
