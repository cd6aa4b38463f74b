"""Bad input: refused before anything is written, naming the field and the limit (PORT-5).

Asked as front doors and workers ask: through the engine, which checks, and then, where it has no objection, the store.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import uuid4

import pytest

from holdfast.core import limits
from holdfast.core.commands import Completed, Failed, Filter, HandedBack, Settled, Settlement, Submit, Submitted, Tick
from holdfast.core.dependencies import DependencyKind
from holdfast.core.errors import InvalidInput
from holdfast.core.failures import Category
from holdfast.core.job import Timeouts
from holdfast.core.payload import Payload
from holdfast.core.retry import Retry
from holdfast.core.states import State
from holdfast.engine import work
from holdfast.engine.engine import Engine
from holdfast.testing.factories import (
    FAIL,
    TEMPORARY,
    after,
    claim,
    new_job,
    read_all,
    read_state,
    register,
    running_job,
    settle,
    settle_answer,
    submit_answer,
    submit_answers,
    submit_chain,
    submit_jobs,
    submit_one,
)
from holdfast.testing.harness import StoreHarness
from holdfast.testing.invariants import snapshot


@dataclass(frozen=True, slots=True)
class Bad:
    """One wrong thing about a job that is otherwise right."""

    name: str
    given: dict[str, Any]
    field: str
    limit: str | None = None
    problem: str = ""


URL: Final = "https://example.org/"
TEXT_FIELDS: Final = ("type", "queue", "key", "correlation_id", "callback_url")
MANY: Final = limits.MAX_DEPENDENCIES + 1

BAD: Final = [
    Bad("payload too large", {"payload": Payload.of_bytes(b"x" * 1_000_001)}, "payload", "1000000 bytes"),
    Bad("payload no Payload", {"payload": {"a": 1}}, "payload"),
    Bad("unknown dependency", {"dependencies": after(uuid4())}, "dependencies", problem="no known job"),
    Bad("too many dependencies", {"dependencies": after(*(uuid4() for _ in range(MANY)))}, "dependencies", "1000"),
    Bad("negative delay", {"delay_seconds": -1.0}, "delay_seconds", "0.0"),
    Bad("endless delay", {"delay_seconds": float("inf")}, "delay_seconds", "0.0"),
    Bad("no delay at all", {"delay_seconds": float("nan")}, "delay_seconds", "0.0"),
    Bad("delay behind the lifetime", {"delay_seconds": 7 * 24 * 3600 + 1.0}, "delay_seconds", "lifetime"),
    Bad("delay of the wrong type", {"delay_seconds": "5"}, "delay_seconds", "0.0"),
    Bad("unknown priority", {"priority": 7}, "priority", "0 CRITICAL … 4 BULK"),
    Bad("priority of the wrong type", {"priority": "HIGH"}, "priority", "0 CRITICAL … 4 BULK"),
    Bad("naive datetime", {"run_at": datetime(2040, 1, 1)}, "run_at", problem="naive"),  # noqa: DTZ001
    Bad("time of the wrong type", {"run_at": "2040-01-01"}, "run_at"),
    Bad("key too long", {"key": "x" * 300}, "key", "256 characters"),
    Bad("key empty", {"key": ""}, "key", "256 characters"),
    Bad("key window negative", {"key": "k", "key_window_seconds": -1.0}, "key_window_seconds", "0.0"),
    Bad("key window too long", {"key": "k", "key_window_seconds": 31 * 24 * 3600.0}, "key_window_seconds", "2592000"),
    Bad("type empty", {"type": ""}, "type", "255"),
    Bad("type too long", {"type": "x" * 256}, "type", "255"),
    Bad("type of the wrong type", {"type": 5}, "type"),
    Bad("queue empty", {"queue": ""}, "queue", "255"),
    Bad("queue too long", {"queue": "x" * 256}, "queue", "255"),
    Bad("correlation ID too long", {"correlation_id": "x" * 256}, "correlation_id", "255"),
    Bad("callback too long", {"callback_url": URL + "x" * 2048}, "callback_url", "2048"),
    Bad("callback of another scheme", {"callback_url": "ftp://example.org/"}, "callback_url"),
    Bad("tags no map", {"tags": ["a", "b"]}, "tags"),
    Bad("tags of the wrong value", {"tags": {"a": 1}}, "tags['a']"),
    Bad("tags of the wrong name", {"tags": {1: "a"}}, "tags"),
    Bad("too many tags", {"tags": {str(n): "x" for n in range(65)}}, "tags", "64"),
    Bad("tag too long", {"tags": {"a": "x" * 256}}, "tags['a']", "255"),
    Bad("no attempt", {"retry": Retry(max_attempts=0)}, "retry.max_attempts", "1 … 1000"),
    Bad("too many attempts", {"retry": Retry(max_attempts=1001)}, "retry.max_attempts", "1 … 1000"),
    Bad("negative backoff", {"retry": Retry(initial_delay=-1.0)}, "retry.initial_delay", "0"),
    Bad("backoff that is no number", {"retry": Retry(max_delay=float("nan"))}, "retry.max_delay", "0"),
    Bad("shrinking backoff", {"retry": Retry(multiplier=0.5)}, "retry.multiplier", "1"),
    Bad("retry of what is permanent", {"retry": Retry(on=frozenset({Category.PERMANENT}))}, "retry.on", "TEMPORARY"),
    Bad("no execution time", {"timeouts": Timeouts(execution=0.0)}, "timeouts.execution", "seconds"),
    Bad("negative visibility", {"timeouts": Timeouts(visibility=-5.0)}, "timeouts.visibility", "seconds"),
    Bad("endless lifetime", {"timeouts": Timeouts(lifetime=float("inf"))}, "timeouts.lifetime", "seconds"),
    Bad("retry of the wrong type", {"retry": None}, "retry"),
    Bad("attempts of the wrong type", {"retry": Retry(max_attempts="3")}, "retry.max_attempts", "1 … 1000"),  # type: ignore[arg-type]
    Bad("half an attempt", {"retry": Retry(max_attempts=2.5)}, "retry.max_attempts", "1 … 1000"),  # type: ignore[arg-type]
    Bad("timeouts of the wrong type", {"timeouts": None}, "timeouts"),
    Bad("lifetime of the wrong type", {"timeouts": Timeouts(lifetime="7")}, "timeouts.lifetime", "seconds"),  # type: ignore[arg-type]
    Bad("dependencies of the wrong type", {"dependencies": (uuid4(),)}, "dependencies"),
    Bad("ID of the wrong type", {"id": "abc"}, "id"),
    *(Bad(f"NUL in {name}", {name: f"{URL}\0"}, name, problem="NUL") for name in TEXT_FIELDS),
    *(Bad(f"surrogate in {name}", {name: f"{URL}\ud800"}, name, problem="not UTF-8") for name in TEXT_FIELDS),
    Bad("NUL in a tag's name", {"tags": {"a\0": "b"}}, "tags", problem="NUL"),
    Bad("NUL in a tag", {"tags": {"a": "b\0"}}, "tags['a']", problem="NUL"),
    Bad("surrogate in a tag's name", {"tags": {"\udfff": "b"}}, "tags", problem="not UTF-8"),
    Bad("surrogate in a tag", {"tags": {"a": "\udfff"}}, "tags['a']", problem="not UTF-8"),
]


def require_fault(answer: object, bad: Bad, *, item: int = 0) -> None:
    assert isinstance(answer, InvalidInput), f"accepted: {answer}"
    (fault,) = answer.faults
    assert (fault.item, fault.field) == (item, bad.field)
    assert bad.problem in fault.problem
    assert (fault.limit is not None) == (bad.limit is not None), fault
    assert fault.limit is None or (bad.limit is not None and bad.limit in fault.limit), fault
    assert bad.field in str(answer), "the message names the field too"


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
async def test_bad_input_is_refused_and_nothing_is_written(harness: StoreHarness, bad: Bad) -> None:
    """PORT-5: alone, and with the good jobs of its batch; a submit that shares the call is not disturbed."""
    await submit_one(harness.store)
    before = await snapshot(harness.store)
    require_fault(await submit_answer(harness.store, new_job(**bad.given)), bad)
    require_fault(await submit_answer(harness.store, new_job(key="g"), new_job(**bad.given)), bad, item=1)
    assert await snapshot(harness.store) == before
    good = new_job(key="g")
    answers = await submit_answers(harness.store, Submit(jobs=(new_job(**bad.given),)), Submit(jobs=(good,)))
    require_fault(answers[0], bad)
    assert answers[1] == (Submitted(good.id),)
    assert len(await read_all(harness.store)) == 2


async def test_a_cycle_is_refused(harness: StoreHarness) -> None:
    """DEPEND-1."""
    first, second, third, free = (new_job() for _ in range(4))
    jobs = [
        new_job(id=first.id, dependencies=after(third.id)),
        new_job(id=second.id, dependencies=after(first.id, kind=DependencyKind.AFTER_ANY)),
        new_job(id=third.id, dependencies=after(second.id, kind=DependencyKind.FAN_IN)),
        free,
    ]
    before = await snapshot(harness.store)
    answer = await submit_answer(harness.store, *jobs)
    assert isinstance(answer, InvalidInput)
    assert {(fault.item, fault.field) for fault in answer.faults} == {(n, "dependencies") for n in range(3)}
    assert all("cycle" in fault.problem for fault in answer.faults)
    assert await snapshot(harness.store) == before


async def test_a_job_cannot_wait_for_itself(harness: StoreHarness) -> None:
    """DEPEND-1."""
    job_id = uuid4()
    before = await snapshot(harness.store)
    answer = await submit_answer(harness.store, new_job(id=job_id, dependencies=after(job_id)))
    assert isinstance(answer, InvalidInput)
    assert answer.faults[0].field == "dependencies"
    assert "itself" in answer.faults[0].problem
    assert await snapshot(harness.store) == before


async def test_a_dependency_is_named_once(harness: StoreHarness) -> None:
    """DEPEND-2."""
    job_id = await submit_one(harness.store)
    twice = after(job_id) + after(job_id, kind=DependencyKind.AFTER_ANY)
    answer = await submit_answer(harness.store, new_job(dependencies=twice))
    assert isinstance(answer, InvalidInput)
    assert [fault.field for fault in answer.faults] == ["dependencies"]


async def test_a_chain_deeper_than_the_limit_is_refused(harness: StoreHarness) -> None:
    """DEPEND-2: a chain is at most 100 deep, in one submit and over several."""
    before = await snapshot(harness.store)
    with pytest.raises(InvalidInput) as caught:
        await submit_chain(harness.store, limits.MAX_DEPENDENCY_DEPTH + 2)
    (fault,) = caught.value.faults
    assert (fault.item, fault.field, fault.limit) == (101, "dependencies", "100 levels")
    assert await snapshot(harness.store) == before
    ids = await submit_chain(harness.store, limits.MAX_DEPENDENCY_DEPTH + 1)
    before = await snapshot(harness.store)
    answer = await submit_answer(harness.store, new_job(dependencies=after(ids[-1])))
    assert isinstance(answer, InvalidInput)
    assert answer.faults[0].limit == "100 levels"
    assert await snapshot(harness.store) == before


async def test_a_time_behind_the_end_of_the_lifetime_is_refused(harness: StoreHarness) -> None:
    end = harness.clock.now() + timedelta(seconds=100)
    timeouts = Timeouts(lifetime=100.0)
    before = await snapshot(harness.store)
    behind = new_job(run_at=end + timedelta(microseconds=1), timeouts=timeouts)
    answer = await submit_answer(harness.store, new_job(), behind)
    assert isinstance(answer, InvalidInput)
    (fault,) = answer.faults
    assert (fault.item, fault.field, fault.limit) == (1, "run_at", "timeouts.lifetime")
    assert await snapshot(harness.store) == before
    await submit_jobs(harness.store, new_job(run_at=end, timeouts=timeouts))


async def test_a_time_and_a_delay_exclude_each_other(harness: StoreHarness) -> None:
    """PORT-5."""
    both = new_job(run_at=harness.clock.now() + timedelta(seconds=5), delay_seconds=5.0)
    answer = await submit_answer(harness.store, both)
    assert isinstance(answer, InvalidInput)
    assert [fault.field for fault in answer.faults] == ["run_at"]


async def test_a_batch_names_each_job_and_each_key_once(harness: StoreHarness) -> None:
    job = new_job()
    before = await snapshot(harness.store)
    for jobs, name in (((job, job), "id"), ((new_job(key="k"), new_job(key="k")), "key"), ((), "jobs")):
        answer = await submit_answer(harness.store, *jobs)
        assert isinstance(answer, InvalidInput)
        assert [fault.field for fault in answer.faults] == [name]
    assert await snapshot(harness.store) == before


async def test_a_batch_larger_than_the_limit_is_refused(harness: StoreHarness) -> None:
    """limits.MAX_SUBMIT_JOBS."""
    job = new_job()
    answer = await submit_answer(harness.store, *(new_job() for _ in range(limits.MAX_SUBMIT_JOBS)), job)
    assert isinstance(answer, InvalidInput)
    assert [(fault.field, fault.limit) for fault in answer.faults] == [("jobs", str(limits.MAX_SUBMIT_JOBS))]
    assert await read_all(harness.store) == []


async def test_what_is_just_allowed_is_accepted(harness: StoreHarness) -> None:
    """The limits are those that the refusals name."""
    await submit_jobs(
        harness.store,
        new_job(
            type="x" * 255,
            queue="q" * 255,
            key="k" * 256,
            key_window_seconds=limits.MAX_KEY_WINDOW_SECONDS,
            correlation_id="c" * 255,
            callback_url=(URL + "x" * 2048)[:2048],
            tags={f"{n}".ljust(255, "t"): "v" * 255 for n in range(64)},
            retry=Retry(max_attempts=1000, multiplier=1000.0),
            timeouts=Timeouts(execution=0.001, visibility=limits.MAX_TIMEOUT_SECONDS, lifetime=100.0),
            delay_seconds=100.0,
        ),
    )
    assert len(await read_all(harness.store)) == 1


async def test_whoever_waits_for_a_faulty_sibling_is_not_at_fault(harness: StoreHarness) -> None:
    """PORT-5: every fault is named, and nothing that is not at fault."""
    stranger = new_job().id
    faulty = new_job(dependencies=after(stranger))
    child = new_job(dependencies=after(faulty.id))
    late = harness.clock.now() + timedelta(days=8)
    grandchild = new_job(dependencies=after(child.id), run_at=late)
    answer = await submit_answer(harness.store, grandchild, child, faulty)
    assert isinstance(answer, InvalidInput)
    assert sorted((fault.item, fault.field) for fault in answer.faults) == [(0, "run_at"), (2, "dependencies")]
    assert [str(stranger) in fault.problem for fault in answer.faults if fault.item == 2] == [True]


BAD_TEXTS: Final = pytest.mark.parametrize("text", ["a\0b", "a\ud800b"], ids=["NUL", "surrogate"])


@BAD_TEXTS
async def test_names_that_no_job_can_have_are_refused_everywhere(harness: StoreHarness, text: str) -> None:
    """PORT-5: in the same words by every store, not with an error of a driver."""
    store, engine, worker = harness.store, Engine(harness.store), await register(harness.store)
    before, workers = await snapshot(store), await store.read_workers()
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "claim by queue": lambda: claim(store, worker, queues=(text,)),
        "claim by type": lambda: claim(store, worker, types=(text,)),
        "page by queue": lambda: engine.read_page(Filter(queue=text), limit=5),
        "page by type": lambda: engine.read_page(Filter(type=text), limit=5),
        "page by tag": lambda: engine.read_page(Filter(tag=("a", text)), limit=5),
        "page by tag's name": lambda: engine.read_page(Filter(tag=(text, "a")), limit=5),
        "replay by queue": lambda: engine.replay_where(Filter(queue=text), limit=5),
        "pause": lambda: engine.pause(text),
        "resume": lambda: engine.resume(text),
        "register": lambda: work.register(store, uuid4(), name=text),
        "register of a queue": lambda: work.register(store, uuid4(), name="w", queues=(text,)),
        "register of a type": lambda: work.register(store, uuid4(), name="w", types=(text,)),
    }
    accepted = [name for name, call in calls.items() if not await _is_refused(call)]
    assert accepted == []
    assert (await snapshot(store), await store.read_workers()) == (before, workers)


@pytest.mark.parametrize("queue", ["a\nb", "\t", "bell\x07", "del\x7f", "next\x85", "line\u2028"], ids=ascii)
async def test_a_queue_with_a_control_character_is_refused_everywhere(harness: StoreHarness, queue: str) -> None:
    """PORT-5: names of queues stand in lines, in notifications first of all."""
    store, engine, worker = harness.store, Engine(harness.store), await register(harness.store)
    before = await snapshot(store)
    refusal = await submit_answer(store, new_job(queue=queue))
    assert isinstance(refusal, InvalidInput)
    assert [fault.field for fault in refusal.faults] == ["queue"]
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "claim": lambda: claim(store, worker, queues=("default", queue)),
        "page": lambda: engine.read_page(Filter(queue=queue), limit=5),
        "replay": lambda: engine.replay_where(Filter(queue=queue), limit=5),
        "pause": lambda: engine.pause(queue),
        "resume": lambda: engine.resume(queue),
        "register": lambda: work.register(store, uuid4(), name="w", queues=(queue,)),
    }
    accepted = [name for name, call in calls.items() if not await _is_refused(call)]
    assert accepted == []
    assert await snapshot(store) == before


@pytest.mark.parametrize(
    "queue", ["with space", "grün", "a/b:c#d%", "no-break\u00a0space", "日本", "👩\u200d🚀"], ids=ascii
)
async def test_any_other_name_of_a_queue_works(harness: StoreHarness, queue: str) -> None:
    """PORT-5: from submit to claim."""
    job_id = await submit_one(harness.store, queue=queue)
    worker = await register(harness.store, queues=(queue,))
    assert [job.id for job in await claim(harness.store, worker, queues=(queue,))] == [job_id]


async def test_questions_out_of_bounds_are_refused(harness: StoreHarness) -> None:
    """PORT-5: limits of pages, naive times, names that are too long."""
    store, engine = harness.store, Engine(harness.store)
    naive = datetime(2040, 1, 1)  # noqa: DTZ001
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "page of none": lambda: engine.read_page(Filter(), limit=0),
        "page of less": lambda: engine.read_page(Filter(), limit=-1),
        "page too large": lambda: engine.read_page(Filter(), limit=limits.MAX_PAGE_JOBS + 1),
        "replay of none": lambda: engine.replay_where(Filter(), limit=0),
        "naive from": lambda: engine.read_page(Filter(created_from=naive), limit=5),
        "naive until": lambda: engine.read_page(Filter(created_until=naive), limit=5),
        "pause of no name": lambda: engine.pause(""),
        "pause of a long name": lambda: engine.pause("x" * 256),
        "worker without a name": lambda: work.register(store, uuid4(), name=""),
        "worker with a long name": lambda: work.register(store, uuid4(), name="x" * 256),
        "worker of a queue without a name": lambda: work.register(store, uuid4(), name="w", queues=("",)),
        "worker of a long type": lambda: work.register(store, uuid4(), name="w", types=("x" * 256,)),
        "worker of a text": lambda: work.register(store, uuid4(), name="w", queues="default"),
        "worker of too many queues": lambda: work.register(
            store, uuid4(), name="w", queues=[str(n) for n in range(limits.MAX_WORKER_QUEUES + 1)]
        ),
        "worker of too many types": lambda: work.register(
            store, uuid4(), name="w", types=[str(n) for n in range(limits.MAX_WORKER_TYPES + 1)]
        ),
        "tick of no batch": lambda: work.tick(store, Tick(batch=0)),
    }
    accepted = [name for name, call in calls.items() if not await _is_refused(call)]
    assert accepted == []
    assert (await store.read_queues(), await store.read_workers()) == ([], [])


async def _is_refused(call: Callable[[], Awaitable[object]]) -> bool:
    try:
        await call()
    except InvalidInput:
        return True
    except Exception:
        return False
    return False


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 1e300, -1.0])
@pytest.mark.parametrize("kind", ["backoff", "hand-back"])
async def test_a_time_that_is_none_refuses_its_settlement_only(
    harness: StoreHarness, kind: str, seconds: float
) -> None:
    """PORT-5: settle answers per item, so a wrong one never fails its neighbours."""
    outcome = Failed(TEMPORARY, retry_in_seconds=seconds) if kind == "backoff" else HandedBack(seconds)
    wrong, neighbour = [await running_job(harness.store) for _ in range(2)]
    settlements = [Settlement(lease=job.lease, outcome=one) for job, one in ((wrong, outcome), (neighbour, FAIL))]
    answers = await work.settle(harness.store, settlements)
    assert isinstance(answers[0], InvalidInput)
    assert answers[1] == Settled(State.FAILED)
    assert await read_state(harness.store, wrong.id) is State.RUNNING


async def test_more_children_than_the_limit_are_refused(harness: StoreHarness) -> None:
    """limits.MAX_SPAWNED."""
    parent = await running_job(harness.store)
    children = tuple(new_job() for _ in range(limits.MAX_SPAWNED + 1))
    answer = await settle_answer(harness.store, parent, Completed(spawn=children))
    assert isinstance(answer, InvalidInput)
    assert await read_state(harness.store, parent.id) is State.RUNNING
    assert await settle(harness.store, parent, Completed(spawn=children[:-1])) is State.COMPLETED
