"""Handlers in child processes: what they are given and give, how they fail and die; cites CHILD-1 … of the README."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from holdfast.core.errors import UsageError
from holdfast.core.failures import Category
from holdfast.core.states import State
from holdfast.worker.context import UpstreamResult
from holdfast.worker.processes import (
    ProcessPool,
    Returned,
)
from tests.unit.worker import isolated
from tests.unit.worker.bench import (
    Bench,
    IsolatedJob,
    announced,
    died,
    first_progress,
    is_alive,
    raised,
    returned,
    until,
    with_options,
)

ROOT = Path(__file__).parents[3]


# what a handler is given and gives


@pytest.mark.parametrize("job", [isolated.double, isolated.double_later])
async def test_a_handler_gets_its_arguments_and_its_result_comes_back(bench: Bench, job: IsolatedJob) -> None:
    assert await bench.run(job, number=21) == Returned(b"42")


async def test_the_context_knows_everything_of_its_job(bench: Bench) -> None:
    lease_fields = {
        "attempt": 2,
        "max_attempts": 5,
        "previous_attempt_id": uuid4(),
        "checkpoint": b'{"at":7}',
        **with_options(tags={"customer": "zoë"}, correlation_id="trace-1"),
    }
    upstream = (
        UpstreamResult(job_id=uuid4(), state=State.COMPLETED, result={"large": 2**80, "text": "ß"}),
        UpstreamResult(job_id=uuid4(), state=State.FAILED, result=None),
    )
    call = bench.start(isolated.everything_about, upstream=upstream, fields=lease_fields)
    told = returned(await call.outcome())
    assert UUID(told.pop("job_id")) != UUID(told.pop("attempt_id"))
    assert told == {
        "type": "everything_about",
        "queue": "default",
        "attempt": 2,
        "max_attempts": 5,
        "previous_attempt_id": str(lease_fields["previous_attempt_id"]),
        "correlation_id": "trace-1",
        "tags": {"customer": "zoë"},
        "checkpoint": {"at": 7},
        "results": [{"large": 2**80, "text": "ß"}, None],
        "states": ["COMPLETED", "FAILED"],
    }


async def test_a_child_has_the_workers_directory_path_and_arguments_and_a_session_of_its_own(bench: Bench) -> None:
    assert returned(await bench.run(isolated.surroundings)) == {
        "directory": str(Path.cwd()),
        "path": sys.path,
        "argv": sys.argv,
        "stdin": "",
        "is_leader": True,
    }


async def test_a_handler_is_found_under_another_name_and_by_the_apps_registry(bench: Bench) -> None:
    assert await bench.run(isolated.other_name, number=1) == Returned(b"2")
    registered = IsolatedJob(isolated._registered, name="registered")
    assert await bench.run(registered, number=1) == Returned(b"3")


async def test_one_child_runs_a_hundred_jobs(bench: Bench) -> None:
    process_ids = {returned(await bench.run(isolated.process_id)) for _ in range(100)}
    assert len(process_ids) == 1
    assert os.getpid() not in process_ids


async def test_two_children_run_at_once(tmp_path: Path) -> None:
    pool = ProcessPool(size=2)
    bench = Bench(pool)
    there = bench.start(isolated.meet, directory=str(tmp_path), name="a", other="b")
    here = bench.start(isolated.meet, directory=str(tmp_path), name="b", other="a")
    assert returned(await there.outcome()) != returned(await here.outcome())
    await pool.close()


async def test_calls_beyond_the_size_wait_for_a_child(bench: Bench) -> None:
    calls = [bench.start(isolated.double, number=number) for number in range(20)]
    assert [returned(await call.outcome()) for call in calls] == [2 * number for number in range(20)]


async def test_coroutines_of_one_child_share_a_loop(bench: Bench) -> None:
    assert returned(await bench.run(isolated.remember_the_loop)) is False
    assert returned(await bench.run(isolated.remember_the_loop)) is True


async def test_a_warm_child_has_imported_what_it_will_need() -> None:
    pool = ProcessPool(size=1)
    bench = Bench(pool)
    pool.warm_up([isolated.double.handler])
    assert await bench.run(isolated.double, number=2) == Returned(b"4")
    await pool.close()


# failures


async def test_an_error_that_cannot_be_pickled_is_told_with_its_trace(bench: Bench) -> None:
    failure = raised(await bench.run(isolated.raise_unpicklable)).failure
    assert failure.category is Category.TEMPORARY
    assert failure.message == "cannot be pickled"
    assert failure.error_type == "tests.unit.worker.isolated.Unpicklable"
    assert "raise Unpicklable" in failure.trace


async def test_an_error_whose_text_fails_is_told_all_the_same(bench: Bench) -> None:
    failure = raised(await bench.run(isolated.raise_unspeakable)).failure
    assert failure.error_type.endswith("Unspeakable")
    assert "Unspeakable" in failure.message


async def test_an_error_text_that_no_database_takes_is_made_storable(bench: Bench) -> None:
    failure = raised(await bench.run(isolated.raise_unwritable)).failure
    assert failure == failure.bounded()
    assert failure.message.startswith("half a pair")


async def test_a_handler_says_what_kind_of_failure_it_is(bench: Bench) -> None:
    temporary = raised(await bench.run(isolated.raise_temporary))
    assert (temporary.failure.category, temporary.retry_after) == (Category.TEMPORARY, 12.5)
    permanent = raised(await bench.run(isolated.raise_permanent)).failure
    assert (permanent.category, permanent.code) == (Category.PERMANENT, "gone")
    assert raised(await bench.run(isolated.raise_key_error)).failure.category is Category.PERMANENT


async def test_a_payload_that_does_not_fit_is_permanent_and_names_the_field(bench: Bench) -> None:
    failure = raised(await bench.run(isolated.double, number="many")).failure
    assert (failure.category, failure.code) == (Category.PERMANENT, "payload_mismatch")
    assert "number" in failure.message


async def test_a_result_too_large_or_not_json_is_permanent(bench: Bench) -> None:
    assert await bench.run(isolated.return_text, length=98) == Returned(b'"' + b"x" * 98 + b'"')
    failure = raised(await bench.run(isolated.return_text, length=99)).failure
    assert (failure.category, failure.code) == (Category.PERMANENT, "result_too_large")
    failure = raised(await bench.run(isolated.return_a_lock)).failure
    assert (failure.category, failure.code) == (Category.PERMANENT, "result_not_json")


async def test_sys_exit_is_an_ordinary_failure(bench: Bench) -> None:
    before = returned(await bench.run(isolated.process_id))
    assert "sys.exit(3)" in raised(await bench.run(isolated.call_sys_exit, code=3)).failure.message
    assert raised(await bench.run(isolated.call_sys_exit_in_a_coroutine)).failure.error_type == "SystemExit"
    assert await bench.run(isolated.double_later, number=1) == Returned(b"2")
    assert returned(await bench.run(isolated.process_id)) == before


async def test_too_little_memory_is_an_ordinary_failure(bench: Bench) -> None:
    failure = raised(await bench.run(isolated.fill_memory, limit_bytes=64 * 1024 * 1024)).failure
    assert failure.error_type == "MemoryError"
    # The limit was the handler's own: the next job gets a child without it.
    assert await bench.run(isolated.double, number=1) == Returned(b"2")


# death


async def test_a_crash_fails_only_its_own_job_and_the_child_is_replaced(bench: Bench) -> None:
    before = returned(await bench.run(isolated.process_id))
    assert "SIGSEGV" in died(await bench.run(isolated.crash))
    after = returned(await bench.run(isolated.process_id))
    assert after != before
    assert not is_alive(before)


async def test_os_exit_is_told_with_its_code(bench: Bench) -> None:
    assert "exited with code 3 (os._exit or sys.exit)" in died(await bench.run(isolated.call_os_exit, code=3))
    assert await bench.run(isolated.double, number=1) == Returned(b"2")


async def test_a_child_killed_from_outside_is_told_as_that(bench: Bench) -> None:
    process_id = returned(await bench.run(isolated.process_id))
    call = bench.start(isolated.loop_for_ever)
    await first_progress(bench)
    os.kill(process_id, signal.SIGKILL)
    assert "killed by SIGKILL, perhaps out of memory" in died(await call.outcome())
    assert await bench.run(isolated.double, number=1) == Returned(b"2")


async def test_an_idle_child_that_dies_is_noticed_and_costs_no_job(bench: Bench) -> None:
    process_id = returned(await bench.run(isolated.process_id))
    os.kill(process_id, signal.SIGKILL)
    await until(lambda: not bench.pool._idle)
    assert await bench.run(isolated.double, number=1) == Returned(b"2")


async def test_signals_to_all_processes_of_a_group_do_not_end_a_child(bench: Bench) -> None:
    process_id = returned(await bench.run(isolated.process_id))
    call = bench.start(isolated.wait_for_cancel)
    await first_progress(bench)
    os.kill(process_id, signal.SIGINT)
    os.kill(process_id, signal.SIGTERM)
    call.request_cancel()
    assert returned(await call.outcome()) == "stopped"


async def test_an_endless_loop_is_killed_and_the_next_job_runs(bench: Bench) -> None:
    call = bench.start(isolated.loop_for_ever)
    await first_progress(bench)
    call.kill()
    call.kill()
    assert died(await call.outcome()) == "the child process ended: ended by the worker"
    assert await bench.run(isolated.double, number=1) == Returned(b"2")


async def test_a_call_killed_before_it_began_leaves_the_running_one_alone(bench: Bench) -> None:
    first = bench.start(isolated.wait_for_cancel)
    await first_progress(bench)
    second = bench.start(isolated.double, number=1)
    second.kill()
    died(await second.outcome())
    first.request_cancel()
    assert returned(await first.outcome()) == "stopped"


async def test_a_kill_after_the_end_changes_nothing(bench: Bench) -> None:
    call = bench.start(isolated.process_id)
    process_id = returned(await call.outcome())
    call.kill()
    assert returned(await call.outcome()) == process_id
    assert returned(await bench.run(isolated.process_id)) == process_id


async def test_whoever_stops_waiting_for_an_outcome_kills_the_child(bench: Bench) -> None:
    call = bench.start(isolated.start_a_program)
    waiting = asyncio.create_task(call.outcome())
    child, program = await announced(bench)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await until(lambda: not is_alive(child) and not is_alive(program))


async def test_what_the_handler_started_is_killed_with_it(bench: Bench) -> None:
    call = bench.start(isolated.start_a_program)
    child, program = await announced(bench)
    assert is_alive(program)
    call.kill()
    died(await call.outcome())
    await until(lambda: not is_alive(child) and not is_alive(program))


async def test_what_a_crashed_handler_started_is_killed_too(bench: Bench) -> None:
    assert "SIGSEGV" in died(await bench.run(isolated.start_a_program_and_crash))
    _, program = await announced(bench)
    await until(lambda: not is_alive(program))


async def test_what_a_handler_left_behind_ends_with_the_pool(bench: Bench) -> None:
    program = returned(await bench.run(isolated.leave_a_program_behind))
    assert is_alive(program)
    await bench.pool.close()
    await until(lambda: not is_alive(program))


async def test_closing_the_pool_ends_children_and_what_they_run() -> None:
    pool = ProcessPool(size=2)
    bench = Bench(pool)
    idle = returned(await bench.run(isolated.process_id))
    call = bench.start(isolated.start_a_program)
    child, program = await announced(bench)
    waiting = [bench.start(isolated.loop_for_ever) for _ in range(5)]
    await pool.close()
    for one in (call, *waiting):
        died(await one.outcome())
    assert not any(is_alive(process_id) for process_id in (idle, child, program))
    with pytest.raises(UsageError, match="closed"):
        bench.start(isolated.double, number=1)


# the end of the worker


@pytest.mark.parametrize("handler", ["start_a_program", "hold_the_interpreter"])
def test_children_and_what_they_started_end_with_a_worker_that_is_killed(tmp_path: Path, handler: str) -> None:
    text = f"""
import asyncio
from holdfast.worker.processes import ProcessPool
from tests.unit.worker import isolated
from tests.unit.worker.bench import Bench, announced

async def main():
    bench = Bench(ProcessPool(size=2))
    idle = (await bench.run(isolated.process_id)).result.decode()
    call = bench.start(isolated.{handler})
    print(idle, *await announced(bench), flush=True)
    await call.outcome()

asyncio.run(main())
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-c", text]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        processes = [int(word) for word in worker.stdout.readline().split()]
        assert len(processes) == 3
        assert all(is_alive(one) for one in processes)
        worker.kill()
        asyncio.run(until(lambda: not any(is_alive(one) for one in processes)))
