"""One key, one job: scope, window, digest, batches."""

import pytest

from holdfast.core.commands import Submit, Submitted
from holdfast.core.errors import IdempotencyConflict
from holdfast.core.idempotency import item_key
from holdfast.core.payload import Payload
from holdfast.core.priority import Priority
from holdfast.core.states import State
from holdfast.testing.factories import (
    after,
    cancel_one,
    job_in_state,
    new_job,
    read_all,
    read_counts,
    read_one,
    read_state,
    replay_one,
    submit_answer,
    submit_jobs,
    submit_one,
    tick,
)
from holdfast.testing.harness import StoreHarness
from holdfast.testing.invariants import snapshot


async def test_a_second_submit_with_the_key_finds_the_first_job(harness: StoreHarness) -> None:
    first = await submit_one(harness.store, key="k", payload=Payload.of({"a": 1}))
    before = await snapshot(harness.store)
    answer = await submit_jobs(harness.store, new_job(key="k", payload=Payload.of({"a": 1})))
    assert answer == (Submitted(first, is_duplicate=True),)
    assert await snapshot(harness.store) == before


async def test_the_same_payload_is_the_same_canonical_json(harness: StoreHarness) -> None:
    """The order of members and white space do not count."""
    first = await submit_one(harness.store, key="k", payload=Payload.of_json_text(b'{"a":[1,{"c":2,"b":"\xc3\xa4"}]}'))
    spaced = Payload.of_json_text(b'{ "a": [ 1, {"b": "\\u00e4", "c": 2} ] }')
    assert await submit_one(harness.store, key="k", payload=spaced) == first


async def test_text_that_json_can_escape_and_utf8_cannot_say_may_have_a_key(harness: StoreHarness) -> None:
    """A digest exists for every payload that is accepted."""
    payload = Payload.of_json_text(b'{"a":"\\ud800"}')
    first = await submit_one(harness.store, key="k", payload=payload)
    assert await submit_one(harness.store, key="k", payload=payload) == first


@pytest.mark.parametrize("levels", [900, 960, 980, 1000, 5000])
async def test_a_payload_may_have_a_key_however_deeply_it_is_nested(harness: StoreHarness, levels: int) -> None:
    """Python's JSON recurses, and gives up somewhere below a thousand levels."""
    text = b'{"b": [1.50, "\\u00e9"], "a":' * levels + b"null" + b"}" * levels
    again = b'{"a":' * levels + b"null" + b',"b":[1.5,"\xc3\xa9"]}' * levels
    first = await submit_one(harness.store, key="deep", payload=Payload(text))
    assert await submit_one(harness.store, key="deep", payload=Payload(again)) == first


async def test_raw_bytes_are_compared_as_they_are(harness: StoreHarness) -> None:
    first = await submit_one(harness.store, key="k", payload=Payload.of_bytes(b"\x00\xff"))
    assert await submit_one(harness.store, key="k", payload=Payload.of_bytes(b"\x00\xff")) == first
    answer = await submit_answer(harness.store, new_job(key="k", payload=Payload.of_bytes(b"\x00\xfe")))
    assert isinstance(answer, IdempotencyConflict)


async def test_another_payload_under_the_key_is_a_conflict(harness: StoreHarness) -> None:
    first = await submit_one(harness.store, key="k", payload=Payload.of({"a": 1}))
    before = await snapshot(harness.store)
    answer = await submit_answer(harness.store, new_job(key="k", payload=Payload.of({"a": 2})))
    assert isinstance(answer, IdempotencyConflict)
    assert (answer.existing_id, answer.key, answer.job_type) == (first, "k", "example")
    assert await snapshot(harness.store) == before


async def test_a_conflict_refuses_the_whole_batch(harness: StoreHarness) -> None:
    await submit_one(harness.store, key="k", payload=Payload.of(1))
    before = await snapshot(harness.store)
    batch = (new_job(), new_job(key="free"), new_job(key="k", payload=Payload.of(2)))
    assert isinstance(await submit_answer(harness.store, *batch), IdempotencyConflict)
    assert await snapshot(harness.store) == before
    assert not (await submit_jobs(harness.store, new_job(key="free")))[0].is_duplicate


async def test_options_do_not_count(harness: StoreHarness) -> None:
    """The payload alone makes a submit the same."""
    first = await submit_one(harness.store, key="k")
    other = new_job(key="k", queue="other", priority=Priority.BULK, delay_seconds=9.0, tags={"a": "b"})
    assert await submit_jobs(harness.store, other) == (Submitted(first, is_duplicate=True),)


async def test_a_key_belongs_to_one_job_type(harness: StoreHarness) -> None:
    ids = {await submit_one(harness.store, type=name, key="k") for name in ("a", "b", "a", "b")}
    assert len(ids) == 2


@pytest.mark.parametrize("state", State)
async def test_a_key_answers_for_its_job_in_any_state(harness: StoreHarness, state: State) -> None:
    job_id = await job_in_state(harness.store, state, key="k")
    assert await submit_jobs(harness.store, new_job(key="k")) == (Submitted(job_id, is_duplicate=True),)


async def test_the_window_counts_from_the_submit(harness: StoreHarness) -> None:
    """By default it lasts 24 hours."""
    first = await submit_one(harness.store, key="k")
    harness.clock.advance(24 * 3600 - 1)
    await tick(harness.store)
    assert await submit_one(harness.store, key="k") == first, "a duplicate does not start the window again"
    harness.clock.advance(1)
    second = await submit_one(harness.store, key="k")
    assert second != first
    assert await submit_one(harness.store, key="k") == second
    assert await read_state(harness.store, first) is State.SCHEDULED


async def test_each_submit_may_choose_its_window(harness: StoreHarness) -> None:
    first = await submit_one(harness.store, key="k", key_window_seconds=10.0)
    harness.clock.advance(9.999)
    assert await submit_one(harness.store, key="k") == first
    harness.clock.advance(0.001)
    assert await submit_one(harness.store, key="k") != first


async def test_a_payload_of_an_expired_key_does_not_count(harness: StoreHarness) -> None:
    first = await submit_one(harness.store, key="k", payload=Payload.of(1), key_window_seconds=10.0)
    harness.clock.advance(10)
    await tick(harness.store)
    assert await submit_one(harness.store, key="k", payload=Payload.of(2)) != first


async def test_replay_does_not_touch_the_window(harness: StoreHarness) -> None:
    job_id = await job_in_state(harness.store, State.FAILED, key="k")
    harness.clock.advance(24 * 3600 - 1)
    await replay_one(harness.store, job_id)
    assert await submit_one(harness.store, key="k") == job_id
    harness.clock.advance(1)
    assert await submit_one(harness.store, key="k") != job_id


async def test_a_batch_may_hold_new_jobs_and_duplicates(harness: StoreHarness) -> None:
    """Each item says which of the two it is."""
    first = await submit_one(harness.store, key="k")
    plain, keyed = new_job(), new_job(key="new")
    answer = await submit_jobs(harness.store, plain, new_job(key="k"), keyed)
    assert answer == (Submitted(plain.id), Submitted(first, is_duplicate=True), Submitted(keyed.id))
    assert await read_counts(harness.store) == {State.SCHEDULED: 3}


async def test_a_keyed_batch_is_found_whole(harness: StoreHarness) -> None:
    first = await submit_jobs(harness.store, *(new_job(key=item_key("b", n)) for n in range(3)), is_keyed_as_one=True)
    again = await submit_jobs(harness.store, *(new_job(key=item_key("b", n)) for n in range(3)), is_keyed_as_one=True)
    assert again == tuple(Submitted(one.job_id, is_duplicate=True) for one in first)
    assert len(await read_all(harness.store)) == 3


async def test_a_keyed_batch_that_is_found_in_part_is_a_conflict(harness: StoreHarness) -> None:
    """A repeat finds all of it or nothing."""
    await submit_jobs(harness.store, *(new_job(key=item_key("b", n)) for n in range(2)), is_keyed_as_one=True)
    before = await snapshot(harness.store)
    longer = [new_job(key=item_key("b", n)) for n in range(3)]
    assert isinstance(await submit_answer(harness.store, *longer, is_keyed_as_one=True), IdempotencyConflict)
    assert await snapshot(harness.store) == before
    assert not (await submit_jobs(harness.store, new_job(key=item_key("b", 2))))[0].is_duplicate


async def test_a_dependency_on_a_duplicate_is_one_on_the_job_that_has_the_key(harness: StoreHarness) -> None:
    first = await submit_one(harness.store, key="k")
    duplicate = new_job(key="k")
    dependent = new_job(dependencies=after(duplicate.id))
    await submit_jobs(harness.store, duplicate, dependent)
    job = await read_one(harness.store, dependent.id)
    assert (job.state, job.dependencies) == (State.PENDING, after(first))
    await cancel_one(harness.store, first)
    assert await read_state(harness.store, dependent.id) is State.CANCELLED


async def test_a_repeated_keyed_workflow_is_found_whole(harness: StoreHarness) -> None:
    """Each node has a key of its own, made from the workflow's key and its name."""

    def workflow() -> tuple[Submit, list[str]]:
        extract = new_job(key=item_key("w", "extract"))
        load = new_job(key=item_key("w", "load"), dependencies=after(extract.id))
        return Submit(jobs=(extract, load), is_keyed_as_one=True), [str(extract.id), str(load.id)]

    first, _ = workflow()
    second, _ = workflow()
    (created,) = await harness.store.submit([first])
    before = await snapshot(harness.store)
    (found,) = await harness.store.submit([second])
    assert isinstance(created, tuple)
    assert found == tuple(Submitted(one.job_id, is_duplicate=True) for one in created)
    assert await snapshot(harness.store) == before


async def test_one_key_twice_in_one_call_makes_one_job(harness: StoreHarness) -> None:
    """The second submit of the call sees the first."""
    first, second, other = new_job(key="k"), new_job(key="k"), new_job(key="k", payload=Payload.of(2))
    answers = await harness.store.submit([Submit(jobs=(job,)) for job in (first, second, other)])
    assert answers[:2] == [(Submitted(first.id),), (Submitted(first.id, is_duplicate=True),)]
    assert isinstance(answers[2], IdempotencyConflict)
    assert await submit_jobs(harness.store, new_job(key="k")) == (Submitted(first.id, is_duplicate=True),)


async def test_a_refused_submit_gives_its_key_back(harness: StoreHarness) -> None:
    """PORT-5: nothing was written."""
    await submit_answer(harness.store, new_job(key="k", dependencies=after(new_job().id)))
    (answer,) = await submit_jobs(harness.store, new_job(key="k"))
    assert not answer.is_duplicate


async def test_keys_that_look_alike_are_different(harness: StoreHarness) -> None:
    """A key is any text of up to 256 characters, compared as it is."""
    keys = ["k", "K", "k ", " k", "\u00e4", "a\u0308", "x" * 256, "x" * 255, "k#0", "%", "_"]
    ids = {await submit_one(harness.store, key=key) for key in keys}
    assert len(ids) == len(keys)
