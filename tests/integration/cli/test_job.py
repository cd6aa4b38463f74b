"""``holdfast job ID``: the whole of it, why it does not run, and what its handler said."""

import json
from pathlib import Path
from uuid import UUID, uuid4

from holdfast.core.commands import Failed
from holdfast.core.job import Job, LogKey
from holdfast.core.ports import Store
from holdfast.core.states import State
from holdfast.testing.factories import (
    RETRY,
    TEMPORARY,
    claim_one,
    read_one,
    register,
    running_job,
    settle,
    submit_one,
    tick,
)
from holdfast.wiring import create_log_store
from tests.integration.cli.conftest import fill, with_store
from tests.integration.cli.programs import DONE, NOT_DONE, Terminal, refused, run, run_json

Jobs = dict[State, UUID]


def test_a_job_is_shown_with_payload_error_and_attempts(url: str, filled: Jobs) -> None:
    done = run("job", str(filled[State.DEAD_LETTER]), url=url)
    assert (done.returncode, done.stderr) == (DONE, "")
    for expected in (
        str(filled[State.DEAD_LETTER]),
        "DEAD_LETTER",
        "ServiceError: the service is away",
        '{"path": "a.png", "width": 300}',
        "1 of 1",
        "failed attempts",
        "TEMPORARY",
    ):
        assert expected in done.stdout


def test_a_result_is_shown(url: str, filled: Jobs) -> None:
    assert run("job", str(filled[State.COMPLETED]), url=url).stdout.endswith('result\n"done"\n')


def test_every_state_can_be_shown_on_a_terminal(url: str, filled: Jobs) -> None:
    for state, job_id in filled.items():
        with Terminal("job", str(job_id), "--url", url) as terminal:
            assert terminal.exit_code() == DONE
        assert state in terminal.text
        assert "Traceback" not in terminal.text


def test_a_job_as_one_object_has_its_attempts(url: str) -> None:
    async def fail_once(store: Store) -> UUID:
        job = await running_job(store)
        await settle(store, job, RETRY)
        return job.id

    job_id = with_store(url, fail_once)
    data = run_json("job", str(job_id), url=url)
    (attempt,) = data["attempts"]
    assert (attempt["number"], attempt["failure"]["message"]) == (1, "the service is away")


def test_a_job_that_is_not_there_could_not_be_shown(url: str) -> None:
    unknown = str(uuid4())
    assert f"no job {unknown}" in refused("job", unknown, url=url, code=NOT_DONE)
    assert "not a job ID" in refused("job", "17", url=url)


def test_why_is_one_sentence(url: str, filled: Jobs) -> None:
    for job_id in filled.values():
        (sentence,) = run("job", str(job_id), "--why", url=url).stdout.splitlines()
        assert sentence[0].isupper()
    data = run_json("job", str(filled[State.SCHEDULED]), "--why", url=url)
    assert "worker" in data["why"]
    assert data["why"] in run("job", str(filled[State.SCHEDULED]), url=url).stdout


def test_why_answers_on_postgresql(migrated_url: str) -> None:
    filled = with_store(migrated_url, fill)
    for job_id in filled.values():
        assert run_json("job", str(job_id), "--why", url=migrated_url)["why"]


def line(message: str, **fields: object) -> bytes:
    return json.dumps(
        {"ts_ms": 0, "level": "INFO", "stream": "log", "logger": "", "message": message, **fields}
    ).encode()


async def write_logs(store: Store, place: str) -> Job:
    """Two attempts, each with its log."""
    job_id = await submit_one(store)
    worker = await register(store)
    logs = create_log_store(place)
    await logs.open()
    for attempt, data in (
        (1, b"\n".join((line("first try"), line("\x1b[2Jprinted", stream="stdout"), b"not JSON"))),
        (2, line("again", level="WARNING")),
    ):
        job = await claim_one(store, worker)
        key = LogKey(job_id=job.id, created_at=job.created_at, attempt=attempt, attempt_id=job.lease.token)
        await logs.write(key, data)
        await settle(store, job, Failed(TEMPORARY, retry_in_seconds=0.0))
        await tick(store)
    await logs.close()
    return await read_one(store, job_id)


def test_logs_are_shown_by_attempt(url: str) -> None:
    place = f"{url.removeprefix('sqlite:///')}-logs"
    job = with_store(url, lambda store: write_logs(store, place))
    shown = run("job", str(job.id), "--logs", url=url).stdout
    assert shown.index("attempt 1") < shown.index("first try") < shown.index("attempt 2") < shown.index("again")
    assert "WARNING" in shown
    assert "\x1b" not in shown
    assert "not JSON" in shown
    first, second = run_json("job", str(job.id), "--logs", url=url)["logs"]
    assert [entry["message"] for entry in first["lines"]] == ["first try", "\x1b[2Jprinted", "not JSON"]
    assert second["attempt"] == 2


def test_logs_may_be_elsewhere_or_off(url: str, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    job = with_store(url, lambda store: write_logs(store, str(elsewhere)))
    assert run("job", str(job.id), "--logs", url=url).stderr == "holdfast: nothing was logged or printed yet\n"
    assert "first try" in run("job", str(job.id), "--logs", "--log-url", elsewhere, url=url).stdout
    assert "first try" in run("job", str(job.id), "--logs", url=url, HOLDFAST_LOGS=str(elsewhere)).stdout
    assert "--log-url" in refused("job", str(job.id), "--logs", url=url, HOLDFAST_LOGS="off")
