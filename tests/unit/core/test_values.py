"""Payloads, failures, keys, views and errors: small rules, each by example."""

import hashlib
import inspect
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import errors, limits
from holdfast.core.errors import HoldfastError, IdempotencyConflict, InvalidInput
from holdfast.core.failures import Category, Failure, PermanentError, TemporaryError, classify
from holdfast.core.idempotency import KeyClaim, KeyHolder, existing_job, item_key, require_all_or_none
from holdfast.core.payload import Payload, check_limit
from holdfast.core.states import State
from holdfast.core.views import view_of

NOW = datetime(2030, 1, 1, tzinfo=UTC)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


# payload


@given(value=JSON)
def test_a_json_payload_comes_back_as_it_was(value: object) -> None:
    try:
        payload = Payload.of(value)
    except InvalidInput:
        return  # half a surrogate pair
    assert payload.value() == value
    assert Payload.of_json_text(payload.data) == payload


def test_the_digest_does_not_depend_on_the_order_of_keys_or_on_white_space() -> None:
    assert Payload.of({"a": 1, "b": [2]}).digest() == Payload.of_json_text(b'{"b": [2],\n "a":1}').digest()
    assert Payload.of({"a": 1}).digest() == hashlib.sha256(b'{"a":1}').digest()
    assert Payload.of_bytes(b'{"b":1,"a":1}').digest() == hashlib.sha256(b'{"b":1,"a":1}').digest()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}, b"x", "\ud800"])
def test_what_json_cannot_carry_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="payload"):
        Payload.of(value)


@pytest.mark.parametrize("text", [b"\xff", b"{", b"NaN", b"[Infinity]", b"[" * 100_000])
def test_json_text_that_is_none_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidInput, match="payload"):
        Payload.of_json_text(text)


def test_the_payload_limit_can_be_raised_to_sixteen_megabytes_and_no_further() -> None:
    assert check_limit(16_000_000) == limits.MAX_PAYLOAD_BYTES
    for wrong in (0, 16_000_001):
        with pytest.raises(InvalidInput):
            check_limit(wrong)


# failures


class Unknown(Exception): ...


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (TemporaryError("later", retry_after=3), Category.TEMPORARY),
        (PermanentError("never", code="gone"), Category.PERMANENT),
        (TimeoutError(), Category.TIMEOUT),
        (ValueError(), Category.PERMANENT),
        (Unknown(), Category.TEMPORARY),
    ],
)
def test_a_raised_error_has_one_category(error: Exception, category: Category) -> None:
    assert classify(error, permanent=(ValueError,)) is category


def test_a_negative_retry_after_is_refused() -> None:
    with pytest.raises(ValueError, match="retry_after"):
        TemporaryError(retry_after=-1)


@given(st.text(), st.text())
def test_any_error_text_can_be_stored(message: str, trace: str) -> None:
    bounded = Failure(category=Category.TEMPORARY, message=message, trace=trace).bounded()
    for text in (bounded.message, bounded.trace):
        text.encode("utf-8")
        assert "\0" not in text


def test_of_a_long_trace_the_end_is_kept() -> None:
    trace = "x" * limits.MAX_ERROR_TRACE_CHARACTERS + "the cause"
    assert Failure(category=Category.SYSTEM, trace=trace).bounded().trace.endswith("the cause")


# keys


def claim(key: str, digest: bytes = b"d") -> KeyClaim:
    return KeyClaim(job_type="t", key=key, job_id=uuid4(), digest=digest, expires_at=NOW)


def test_a_key_answers_within_its_window_and_for_its_payload_only() -> None:
    holder = KeyHolder(job_id=UUID(int=7), digest=b"d", expires_at=NOW + timedelta(hours=24))
    assert existing_job(claim("k"), None, now=NOW) is None
    assert existing_job(claim("k"), holder, now=NOW) == UUID(int=7)
    assert existing_job(claim("k"), holder, now=holder.expires_at) is None
    with pytest.raises(IdempotencyConflict) as conflict:
        existing_job(claim("k", b"other"), holder, now=NOW)
    assert conflict.value.existing_id == UUID(int=7)


def test_a_batch_under_one_key_is_all_new_or_all_repeat() -> None:
    claims = [claim(item_key("k", n)) for n in range(2)]
    assert [one.key for one in claims] == ["k#0", "k#1"]
    require_all_or_none(claims, [None, None])
    require_all_or_none(claims, [uuid4(), uuid4()])
    with pytest.raises(IdempotencyConflict, match="only 1 of the batch's 2 keys"):
        require_all_or_none(claims, [None, uuid4()])


# views, once more by hand

VIEWS = {
    "PENDING": ("QUEUED", "Ready", "PENDING", "PENDING"),
    "DELAYED": ("QUEUED", "Ready", "PENDING", "PENDING"),
    "SCHEDULED": ("QUEUED", "Ready", "PENDING", "PENDING"),
    "RETRYING": ("RUNNING", "Ready", "PENDING", "ENQUEUED"),
    "RUNNING": ("RUNNING", "InFlight", "IN_PROGRESS", "PROCESSING"),
    "COMPLETED": ("DONE", "Succeeded", "COMPLETED", "SUCCEEDED"),
    "FAILED": ("FAILED", "Failed", "FAILED", "DEAD"),
    "DEAD_LETTER": ("FAILED", "Failed", "FAILED", "DEAD"),
    "CANCELLED": ("CANCELED", "Failed", "FAILED", "CANCELED"),
}


@pytest.mark.parametrize("state", list(State))
def test_every_state_has_its_four_names(state: State) -> None:
    view = view_of(state, was_started=False)
    names = (
        view.grpc,
        view.lease,
        view.rest,
        view.task,
    )
    assert names == VIEWS[state]


def test_grpc_knows_no_way_back_and_tasks_know_the_broker() -> None:
    assert view_of(State.SCHEDULED, was_started=True).grpc == "RUNNING"
    assert view_of(State.COMPLETED, was_started=True).grpc == "DONE"
    assert view_of(State.SCHEDULED, was_started=False, is_handed_to_broker=True).task == "ENQUEUED"
    assert view_of(State.PENDING, was_started=False, is_handed_to_broker=True).task == "PENDING"


# errors


def descendants(kind: type[HoldfastError]) -> list[type[HoldfastError]]:
    return [one for child in kind.__subclasses__() for one in (child, *descendants(child))]


def test_the_tree_in_the_documentation_is_the_tree_of_the_classes() -> None:
    drawn = errors.__doc__ or ""
    tree = [kind for kind in descendants(HoldfastError) if kind.__module__ == errors.__name__]
    assert len(tree) >= 14
    assert all(f" {kind.__name__}" in drawn for kind in tree)
    assert all(kind.__doc__ or inspect.getsource(kind) for kind in tree)


def test_every_error_has_a_code_of_its_own() -> None:
    kinds: list[type[HoldfastError]] = [HoldfastError, *descendants(HoldfastError)]
    coded = [kind for kind in kinds if "code" in vars(kind)]
    assert len({kind.code for kind in coded}) == len(coded)
    # What an adapter adds to the tree may go by its parent's code.
    assert [kind for kind in kinds if kind not in coded and kind.__module__ == HoldfastError.__module__] == []
