"""``jobs``, ``queues``, ``workers``: for people, for pipes and for programs."""

import re
from uuid import UUID

import pytest

from holdfast.core.job import Progress
from holdfast.core.ports import Store
from holdfast.core.states import State
from holdfast.testing.factories import COMPLETED, register, running_job, settle_answer, submit_one
from tests.integration.cli.conftest import fill, with_store
from tests.integration.cli.programs import DONE, Terminal, run, run_json

Jobs = dict[State, UUID]


def test_jobs_are_listed_newest_first_one_a_line_and_whole(url: str, filled: Jobs) -> None:
    done = run("jobs", url=url)
    assert (done.returncode, done.stderr) == (DONE, "")
    titles, *lines = done.stdout.splitlines()
    assert titles.split() == ["ID", "TYPE", "QUEUE", "STATE", "TRY", "AGE", "NOTE"]
    named = [UUID(line.split()[0]) for line in lines if " resize " in line]
    assert named == list(reversed(filled.values()))
    failed = next(line for line in lines if str(filled[State.FAILED]) in line)
    assert "LookupError: no such customer" in failed


def test_jobs_as_one_object(url: str, filled: Jobs) -> None:
    data = run_json("jobs", "--type", "resize", url=url)
    assert {job["state"]: UUID(job["id"]) for job in data["jobs"]} == filled
    assert data["next_cursor"] is None
    by_state = {job["state"]: job for job in data["jobs"]}
    assert by_state["COMPLETED"]["payload"] == {"path": "a.png", "width": 300}
    assert by_state["COMPLETED"]["result"] == "done"
    assert by_state["FAILED"]["failure"]["category"] == "PERMANENT"
    assert by_state["RUNNING"]["lease"]["worker"]
    assert by_state["RUNNING"]["views"] == {
        "grpc": "RUNNING",
        "lease": "InFlight",
        "rest": "IN_PROGRESS",
        "task": "PROCESSING",
    }


@pytest.mark.parametrize(
    ("options", "states"),
    [
        (["--state", "failed,dead_letter"], {State.FAILED, State.DEAD_LETTER}),
        (["--state", "failed", "--state", "DEAD-LETTER"], {State.FAILED, State.DEAD_LETTER}),
        (["--queue", "running"], {State.RUNNING}),
        (["--since", "1h", "--state", "completed"], {State.COMPLETED}),
        (["--until", "1h"], set()),
        (["--since", "2999-01-01"], set()),
        (["--type", "nothing"], set()),
    ],
)
def test_a_filter_chooses(url: str, filled: Jobs, options: list[str], states: set[State]) -> None:
    assert {job["state"] for job in run_json("jobs", *options, url=url)["jobs"]} == states


def test_a_tag_chooses(url: str) -> None:
    tagged = with_store(url, lambda store: submit_one(store, tags={"customer": "7"}))
    with_store(url, lambda store: submit_one(store, tags={"customer": "8"}))
    (job,) = run_json("jobs", "--tag", "customer=7", url=url)["jobs"]
    assert job["id"] == str(tagged)


def test_a_group_chooses(url: str) -> None:
    mine = run("submit", "greet", "--group", "customer 7", url=url).stdout.strip()
    with_store(url, lambda store: submit_one(store))
    (job,) = run_json("jobs", "--group", "customer 7", url=url)["jobs"]
    assert (job["id"], job["group"]) == (mine, "customer 7")
    assert ["group", "customer", "7"] in [line.split() for line in run("job", mine, url=url).stdout.splitlines()]


def test_a_list_that_goes_on_says_from_where(url: str, filled: Jobs) -> None:
    first = run_json("jobs", "--limit", "4", "--type", "resize", url=url)
    rest = run_json("jobs", "--cursor", str(first["next_cursor"]), "--type", "resize", url=url)
    assert [UUID(job["id"]) for job in first["jobs"] + rest["jobs"]] == list(reversed(filled.values()))
    done = run("jobs", "--limit", "4", url=url)
    assert len(done.stdout.splitlines()) == 5
    assert "--cursor" in done.stderr


def test_more_than_a_page_is_listed_where_more_is_asked_for(url: str) -> None:
    async def submit_many(store: Store) -> None:
        from holdfast.testing.factories import new_job, submit_jobs

        await submit_jobs(store, *(new_job() for _ in range(1100)))

    with_store(url, submit_many)
    assert len(run_json("jobs", "--limit", "1050", url=url)["jobs"]) == 1050


def test_nothing_to_list_is_said_beside_the_output(url: str) -> None:
    done = run("jobs", url=url)
    assert (done.returncode, done.stdout, done.stderr) == (DONE, "", "holdfast: no jobs match\n")


def test_what_a_job_says_cannot_move_the_cursor(url: str) -> None:
    async def say(store: Store) -> None:
        job = await running_job(store, type="evil\x1b[2J[red]")
        await settle_answer(store, job, COMPLETED, progress=Progress(percent=50, message="\x1b[31m"))

    with_store(url, say)
    with Terminal("jobs", "--url", url) as terminal:
        assert terminal.exit_code() == DONE
        assert "\x1b[2J" not in terminal.written
        assert "[2J[red]" in terminal.text


def test_a_terminal_gets_colours_and_whole_ids(url: str, filled: Jobs) -> None:
    with Terminal("jobs", "--url", url) as terminal:
        assert terminal.exit_code() == DONE
    assert "\x1b[32m" in terminal.written
    assert all(str(job_id) in terminal.text for job_id in filled.values())
    assert all(state in terminal.text for state in State)


def test_no_color_is_respected(url: str, filled: Jobs) -> None:
    with Terminal("jobs", "--url", url, NO_COLOR="1") as terminal:
        assert terminal.exit_code() == DONE
    assert re.search(r"\x1b\[[0-9;]*3\d", terminal.written) is None
    assert "COMPLETED" in terminal.text


def test_queues_count_by_state(url: str, filled: Jobs) -> None:
    with_store(url, lambda store: store.pause("completed"))
    queues = {queue["name"]: queue for queue in run_json("queues", url=url)["queues"]}
    assert queues["completed"]["counts"]["COMPLETED"] == 1
    assert queues["completed"]["is_paused"]
    assert queues["scheduled"]["oldest_scheduled_at"] is not None
    lines = {line.split()[0]: line for line in run("queues", url=url).stdout.splitlines()}
    assert lines["completed"].endswith("paused")


@pytest.mark.parametrize("before", [True, False])
def test_a_queue_is_paused_and_resumed(url: str, before: bool) -> None:
    """The URL may stand before the action or after it."""
    place = ("--url", url)

    def change(action: str) -> str:
        words = ("queues", *place, action, "media") if before else ("queues", action, "media", *place)
        done = run(*words)
        assert done.returncode == DONE, done.stderr
        return done.stdout

    assert change("pause") == "queue media is paused\n"
    assert [queue["is_paused"] for queue in run_json("queues", url=url)["queues"]] == [True]
    assert change("resume") == "queue media is open\n"
    assert not any(queue["is_paused"] for queue in run_json("queues", url=url)["queues"])


def test_queues_answer_as_objects(url: str) -> None:
    assert run_json("queues", "pause", "media", url=url) == {"name": "media", "is_paused": True}


def test_workers_are_listed(url: str) -> None:
    assert "holdfast worker" in run("workers", url=url).stderr
    worker = with_store(url, lambda store: register(store, "machine-1"))
    (data,) = run_json("workers", url=url)["workers"]
    assert (data["id"], data["name"], data["is_lost"]) == (str(worker), "machine-1", False)
    assert "alive" in run("workers", url=url).stdout


def test_all_of_it_works_on_postgresql(migrated_url: str) -> None:
    filled = with_store(migrated_url, fill)
    assert len(run_json("jobs", "--type", "resize", url=migrated_url)["jobs"]) == len(filled)
    assert {queue["name"] for queue in run_json("queues", url=migrated_url)["queues"]} >= {"completed", "failed"}
    assert run_json("workers", url=migrated_url)["workers"]
    assert len(run_json("dead", url=migrated_url)["jobs"]) == 2
    assert run_json("replay", "--all", url=migrated_url)["replayed"] == 2
    assert run_json("cancel", str(filled[State.SCHEDULED]), url=migrated_url)["jobs"][0]["outcome"] == "CANCELLED"
