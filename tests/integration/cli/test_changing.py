"""``submit``, ``cancel``, ``replay``: what they do, print and answer."""

import asyncio
import json
import signal
import threading
from uuid import UUID, uuid4

import pytest

from holdfast.core.dependencies import DependencyKind
from holdfast.core.job import Job
from holdfast.core.ports import Store
from holdfast.core.states import State
from holdfast.testing.factories import (
    COMPLETED,
    FAIL,
    after,
    claim,
    hears,
    new_job,
    read_one,
    read_state,
    register,
    running_job,
    settle,
    submit_jobs,
    submit_one,
)
from tests.integration.cli.conftest import with_store
from tests.integration.cli.programs import (
    DONE,
    INTERRUPTED,
    LONG_SECONDS,
    NOT_DONE,
    Program,
    Terminal,
    refused,
    run,
    run_json,
)

Jobs = dict[State, UUID]


def submitted(url: str, *options: str, stdin: str = "") -> Job:
    done = run("submit", *options, url=url, stdin=stdin)
    assert (done.returncode, done.stderr) == (DONE, ""), done.stderr
    return with_store(url, lambda store: read_one(store, UUID(done.stdout.strip())))


def state_of(url: str, job_id: UUID) -> State:
    return with_store(url, lambda store: read_state(store, job_id))


# submit


def test_a_job_is_submitted_with_all_that_was_given(url: str) -> None:
    first = submitted(url, "first")
    job = submitted(
        url,
        *("resize", "--payload", '{"path": "ä.png"}', "--queue", "media", "--priority", "high", "--key", "k"),
        *("--tag", "customer=7", "--tag", "kind=a=b", "--after", str(first.id)),
    )
    assert (job.type, job.queue, job.priority.name, job.key) == ("resize", "media", "HIGH", "k")
    assert job.payload.value() == {"path": "ä.png"}
    assert job.tags == {"customer": "7", "kind": "a=b"}
    assert [one.job_id for one in job.dependencies] == [first.id]
    assert submitted(url, "later", "--delay", "10m").state is State.DELAYED


def test_a_payload_may_come_from_standard_input(url: str) -> None:
    assert submitted(url, "resize", "--payload", "-", stdin='{"width": 3}').payload.value() == {"width": 3}


def test_the_file_is_made_by_the_first_submit(tmp_path: object) -> None:
    new = f"sqlite:///{tmp_path}/new.db"
    assert submitted(new, "resize").state is State.SCHEDULED


def test_a_repeat_with_the_same_key_answers_with_the_first_job(url: str) -> None:
    first = run_json("submit", "resize", "--key", "k", url=url)
    assert first["is_duplicate"] is False
    assert run_json("submit", "resize", "--key", "k", url=url) == {"id": first["id"], "is_duplicate": True}
    assert "nothing was submitted" in run("submit", "resize", "--key", "k", url=url).stderr
    assert "key" in refused("submit", "resize", "--key", "k", "--payload", '{"a": 1}', url=url, code=NOT_DONE)


@pytest.mark.parametrize("payload", ["{", "[1]", '"text"', '{"a": NaN}', ""])
def test_a_payload_that_is_none_is_refused(url: str, payload: str) -> None:
    assert "--payload" in refused("submit", "resize", "--payload", payload, url=url)


def test_a_dependency_that_is_not_there_is_refused(url: str) -> None:
    missing = str(uuid4())
    assert missing in refused("submit", "resize", "--after", missing, url=url)


class Hands:
    """Somebody who does the job that another program waits for."""

    def __init__(self, url: str, outcome: object) -> None:
        self._thread = threading.Thread(target=lambda: with_store(url, lambda store: self._work(store, outcome)))

    async def _work(self, store: Store, outcome: object) -> None:
        worker = await register(store)
        async with asyncio.timeout(LONG_SECONDS):
            while not (jobs := await claim(store, worker)):
                await hears(store, ["default"], within_seconds=0.1)
        await settle(store, jobs[0], outcome)  # type: ignore[arg-type]

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._thread.join()


def test_waiting_gives_the_result(url: str) -> None:
    with Hands(url, COMPLETED):
        done = run("submit", "resize", "--wait", url=url)
    assert (done.returncode, done.stdout, done.stderr) == (DONE, '"done"\n', "")


def test_waiting_for_a_job_that_fails_fails(url: str) -> None:
    with Hands(url, FAIL):
        done = run("submit", "resize", "--wait", url=url)
    assert (done.returncode, done.stdout) == (NOT_DONE, "")
    assert "FAILED (LookupError: no such customer)" in done.stderr


def test_waiting_answers_with_one_object(url: str) -> None:
    with Hands(url, FAIL):
        data = run_json("submit", "resize", "--wait", url=url, code=NOT_DONE)
    assert (data["state"], data["failure"]["message"]) == ("FAILED", "no such customer")


def test_waiting_ends_at_its_timeout_and_the_job_goes_on(url: str) -> None:
    done = run("submit", "resize", "--wait", "--timeout", "300ms", url=url)
    assert done.returncode == NOT_DONE
    assert "still SCHEDULED" in done.stderr
    (job,) = run_json("jobs", url=url)["jobs"]
    assert job["state"] == "SCHEDULED"


def test_waiting_on_a_terminal_shows_the_state_and_ctrl_c_leaves_the_job(url: str) -> None:
    with Terminal("submit", "resize", "--wait", "--url", url) as terminal:
        terminal.wait_for("resize SCHEDULED")
        terminal.press(b"\x03")
        assert terminal.exit_code() == INTERRUPTED
        assert "the job goes on" in terminal.text
        assert "Traceback" not in terminal.text


# cancel


def test_cancel_answers_for_each_job(url: str, filled: Jobs) -> None:
    unknown = uuid4()
    ids = [filled[State.SCHEDULED], filled[State.RUNNING], filled[State.CANCELLED]]
    answers = run_json("cancel", *map(str, ids), url=url)["jobs"]
    assert [answer["outcome"] for answer in answers] == ["CANCELLED", "REQUESTED", "ALREADY_ENDED"]
    assert run("cancel", str(filled[State.SCHEDULED]), url=url).returncode == DONE
    done = run("cancel", str(unknown), str(filled[State.COMPLETED]), url=url)
    assert done.returncode == NOT_DONE
    assert "no such job" in done.stdout
    assert "ended already" in done.stdout


def test_ids_may_come_from_another_command(url: str, filled: Jobs) -> None:
    ids = "\n".join(str(filled[state]) for state in (State.SCHEDULED, State.DELAYED))
    assert run("cancel", "-", url=url, stdin=ids).returncode == DONE
    assert state_of(url, filled[State.DELAYED]) is State.CANCELLED
    assert "is not a job ID" in refused("cancel", "-", url=url, stdin="nonsense")


# replay


def test_replay_answers_for_each_job(url: str, filled: Jobs) -> None:
    ids = [filled[State.FAILED], filled[State.DEAD_LETTER], filled[State.COMPLETED]]
    answers = run_json("replay", *map(str, ids), url=url)["jobs"]
    assert [answer["outcome"] for answer in answers] == ["REPLAYED", "REPLAYED", "UNCHANGED"]
    assert state_of(url, filled[State.FAILED]) is State.SCHEDULED
    done = run("replay", str(uuid4()), url=url)
    assert done.returncode == NOT_DONE
    assert "no such job" in done.stdout


def test_a_job_that_ended_with_its_dependency_names_it(url: str) -> None:
    async def make(store: Store) -> tuple[UUID, UUID]:
        parent = await running_job(store)
        child = await submit_one(store, dependencies=after(parent.id, kind=DependencyKind.CHAIN))
        await settle(store, parent, FAIL)
        return parent.id, child

    parent, child = with_store(url, make)
    done = run("replay", str(child), url=url)
    assert done.returncode == NOT_DONE
    assert f"holdfast replay {parent}" in done.stdout


def test_replay_by_filter_says_how_many(url: str, filled: Jobs) -> None:
    assert run_json("replay", "--queue", "failed", "--dry-run", url=url) == {"dry_run": True, "matching": 1}
    assert state_of(url, filled[State.FAILED]) is State.FAILED
    assert run("replay", "--queue", "failed", url=url).stdout == "1 job replayed\n"
    assert state_of(url, filled[State.FAILED]) is State.SCHEDULED
    assert state_of(url, filled[State.DEAD_LETTER]) is State.DEAD_LETTER
    assert run_json("replay", "--type", "resize", "--since", "1h", url=url)["replayed"] == 1
    assert run_json("replay", "--all", url=url)["replayed"] == 0


def test_replay_of_named_jobs_can_be_tried_dry(url: str, filled: Jobs) -> None:
    ids = [str(filled[State.FAILED]), str(filled[State.COMPLETED])]
    assert run_json("replay", *ids, "--dry-run", url=url)["matching"] == 1
    assert state_of(url, filled[State.FAILED]) is State.FAILED


def test_many_are_replayed_with_a_bar(url: str) -> None:
    count = 1200

    async def make(store: Store) -> None:
        await submit_jobs(store, *(new_job() for _ in range(count)))
        worker = await register(store)
        while jobs := await claim(store, worker, limit=1000):
            for job in jobs:
                await settle(store, job, FAIL)

    with_store(url, make)
    with Terminal("replay", "--all", "--url", url) as terminal:
        assert terminal.exit_code() == DONE
        assert "1200/1200" in terminal.text
        assert "1,200 jobs replayed" in terminal.text


@pytest.mark.parametrize(
    "options", [[], ["--all", "--queue", "media"], [str(uuid4()), "--all"], ["--state", "completed"]]
)
def test_replay_wants_to_know_which(url: str, options: list[str]) -> None:
    refused("replay", *options, url=url)


# dead


def test_dead_letters_are_listed_with_their_errors(url: str, filled: Jobs) -> None:
    data = run_json("dead", url=url)["jobs"]
    assert {UUID(job["id"]) for job in data} == {filled[State.FAILED], filled[State.DEAD_LETTER]}
    (line,) = [line for line in run("dead", "--state", "failed", url=url).stdout.splitlines() if "FAILED" in line]
    assert "LookupError: no such customer" in line
    assert run("dead", "--queue", "nothing", url=url).stderr == "holdfast: no dead letters\n"


def test_dead_letters_are_followed_as_they_come(url: str, filled: Jobs) -> None:
    async def die(store: Store) -> UUID:
        job = await running_job(store, type="later")
        await settle(store, job, FAIL)
        return job.id

    with Program("dead", "--follow", "--url", url) as program, Program("dead", "-f", "--json", "--url", url) as lines:
        program.wait_for("waiting for jobs that die")
        lines.wait_for("waiting for jobs that die")
        first = with_store(url, die)
        program.wait_for(str(first))
        lines.wait_for("\n{")
        # It dies again.
        run("replay", str(filled[State.FAILED]), url=url)
        with_store(url, lambda store: _fail(store, filled[State.FAILED]))
        program.wait_for(str(filled[State.FAILED]))
        program.signal(signal.SIGINT)
        assert program.exit_code() == INTERRUPTED
        lines.wait_for("\n{", times=2)
        lines.signal(signal.SIGINT)
        assert lines.exit_code() == INTERRUPTED
    told = [json.loads(line)["id"] for line in lines.text.splitlines() if line.startswith("{")]
    assert told == [str(first), str(filled[State.FAILED])]
    assert "Traceback" not in program.text
    assert str(filled[State.DEAD_LETTER]) not in program.text


async def _fail(store: Store, job_id: UUID) -> None:
    job = await read_one(store, job_id)
    worker = await register(store)
    for claimed in await claim(store, worker, queues=(job.queue,)):
        await settle(store, claimed, FAIL)
