"""What a handler does to its process, and what it says meanwhile, on the wire to its worker."""

import json
import signal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from holdfast.core.errors import StaleLease
from holdfast.core.job import DEFAULT_TIMEOUTS
from holdfast.core.retry import DEFAULT_RETRY, Strategy
from holdfast.worker.capture import LOG_LIMIT_BYTES
from holdfast.worker.processes import Returned
from holdfast.worker.threads import EXIT_FORKED
from tests.unit.worker import isolated
from tests.unit.worker.bench import Bench, Heard, IsolatedJob, died, first_progress, raised, returned, until

ROOT = Path(__file__).parents[3]


# forks


@pytest.mark.parametrize(("how", "code"), [("return", EXIT_FORKED), ("raise", EXIT_FORKED), ("exit", 9)])
async def test_a_forked_copy_of_a_handler_never_answers(bench: Bench, how: str, code: int) -> None:
    assert returned(await bench.run(isolated.fork_and_return, how=how)) == f"from the original: {code}"
    assert await bench.run(isolated.double, number=1) == Returned(b"2")


async def test_a_forked_copy_of_a_handler_says_nothing(bench: Bench) -> None:
    assert returned(await bench.run(isolated.fork_and_speak)) == "7"
    assert bench.heard.progresses == []
    assert bench.heard.checkpoints == []


async def test_a_fork_that_lives_on_does_not_hide_the_death_of_its_handler(bench: Bench) -> None:
    assert "exited with code 5" in died(await bench.run(isolated.fork_and_die))


async def test_what_a_handler_forks_can_be_terminated(bench: Bench) -> None:
    assert returned(await bench.run(isolated.terminate_a_fork)) == -signal.SIGTERM


# what a handler does to its process


async def test_closed_standard_descriptors_break_neither_this_job_nor_the_next(bench: Bench) -> None:
    assert returned(await bench.run(isolated.close_standard_descriptors)) == "closed"
    await bench.run(isolated.print_lines, count=3)
    assert bench.capture.data().count(b"line") == 3


async def test_closed_standard_streams_break_neither_this_job_nor_the_next(bench: Bench) -> None:
    assert returned(await bench.run(isolated.close_standard_streams)) == "closed"
    assert isinstance(await bench.run(isolated.print_lines, count=3), Returned)


async def test_a_handler_that_closes_everything_fails_only_itself(bench: Bench) -> None:
    assert "closed the connection" in died(await bench.run(isolated.close_all_descriptors))
    assert await bench.run(isolated.double, number=1) == Returned(b"2")


@pytest.mark.parametrize(
    ("job", "given"),
    [
        (isolated.change_directory, {"path": "/"}),
        (isolated.leave_an_alarm, {}),
        (isolated.redirect_stdout, {}),
        (isolated.lower_a_limit, {}),
    ],
)
async def test_a_handler_that_changes_what_the_next_counts_on_is_the_last_of_its_child(
    bench: Bench, job: IsolatedJob, given: dict[str, Any]
) -> None:
    changed = returned(await bench.run(job, **given))
    assert returned(await bench.run(isolated.process_id)) != changed
    assert returned(await bench.run(isolated.surroundings))["directory"] == str(Path.cwd())


async def test_what_is_printed_is_captured_and_bounded(bench: Bench) -> None:
    await bench.run(isolated.print_lines, count=100_000)
    data = bench.capture.data()
    assert len(data) <= LOG_LIMIT_BYTES
    messages = [json.loads(line)["message"] for line in data.splitlines()]
    assert (messages[0], messages[-1]) == ("line 0", "line 99999")


async def test_what_is_logged_is_captured(bench: Bench) -> None:
    await bench.run(isolated.log_a_line)
    (line,) = map(json.loads, bench.capture.data().splitlines())
    assert (line["message"], line["logger"], line["level"]) == ("logged so", "holdfast.job", "INFO")


async def test_logs_arrive_while_the_handler_runs(bench: Bench) -> None:
    call = bench.start(isolated.print_and_wait)
    await until(lambda: b"before the end" in bench.capture.data())
    call.request_cancel()
    returned(await call.outcome())


async def test_the_newest_progress_always_arrives_and_most_of_a_flood_does_not(bench: Bench) -> None:
    await bench.run(isolated.report_often, count=10_000)
    assert bench.heard.progresses[-1].message == "10000 of 10000"
    assert bench.heard.progresses[-1].percent == 100
    assert len(bench.heard.progresses) < 1000
    await bench.run(isolated.report_half_a_pair)
    assert bench.heard.progresses[-1].percent == 50


async def test_a_thread_left_behind_has_no_part_in_the_next_run(bench: Bench) -> None:
    await bench.run(isolated.leave_a_thread_that_reports)
    bench.heard = Heard()
    await bench.run(isolated.report_often, count=1000)
    assert bench.heard.progresses
    assert all("of 1000" in one.message for one in bench.heard.progresses)


@pytest.mark.parametrize("job", [isolated.check_in, isolated.check_in_later])
async def test_a_checkpoint_returns_after_the_worker_has_answered(bench: Bench, job: IsolatedJob) -> None:
    assert returned(await bench.run(job, value={"at": 3})) == {"at": 3}
    assert bench.heard.checkpoints == [b'{"at":3}']


@pytest.mark.parametrize("job", [isolated.check_in, isolated.check_in_later])
async def test_a_checkpoint_on_a_lost_lease_raises_stale_lease(bench: Bench, job: IsolatedJob) -> None:
    bench.heard = Heard(error=StaleLease(job_id=uuid4(), held_version=1, current_version=2))
    failure = raised(await bench.run(job, value=1)).failure
    assert failure.error_type == "holdfast.core.errors.StaleLease"
    assert "held version 1, current 2" in failure.message


async def test_a_handler_is_told_that_it_was_cancelled_and_the_next_one_is_not(bench: Bench) -> None:
    first = bench.start(isolated.wait_for_cancel)
    await first_progress(bench)
    first.request_cancel()
    assert returned(await first.outcome()) == "stopped"
    bench.heard = Heard()
    second = bench.start(isolated.wait_for_cancel)
    await first_progress(bench)
    assert not second.is_over
    second.request_cancel()
    assert returned(await second.outcome()) == "stopped"


async def test_spawned_jobs_come_back_with_all_their_fields(bench: Bench) -> None:
    outcome = await bench.run(isolated.spawn_children)
    assert isinstance(outcome, Returned)
    full, plain, custom = outcome.spawned
    assert full == isolated.FULL
    assert plain == isolated.PLAIN
    # Stores know the defaults by identity.
    assert plain.retry is DEFAULT_RETRY
    assert plain.timeouts is DEFAULT_TIMEOUTS
    assert custom.retry.strategy is Strategy.CUSTOM
    assert custom.retry.custom is None


async def test_a_failed_attempt_spawns_nothing(bench: Bench) -> None:
    raised(await bench.run(isolated.spawn_and_fail))


async def test_a_spawned_job_that_cannot_be_written_fails_the_attempt(bench: Bench) -> None:
    assert raised(await bench.run(isolated.spawn_nonsense)).failure.error_type.endswith("InvalidInput")
    assert await bench.run(isolated.double, number=1) == Returned(b"2")
