"""The contract's numbers, written down once more: a change of one of them is a change of the contract."""

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from holdfast.core import limits as engine
from holdfast.rpc import limits

CONTRACT = {
    "HEARTBEAT_INTERVAL_MS": 1000,
    "WORKER_TIMEOUT_MS": 4000,
    "TOTAL_WORKER_SLOTS": 6,
    "MAX_REDELIVERIES": 3,
    "FETCH_HINT_MS": 200,
    "FETCH_HINT_MIN_MS": 50,
    "FETCH_HINT_MAX_MS": 1000,
    "FETCH_WAIT_MS": 1000,
    "DEQUEUE_WAIT_MS": 700,
    "DEQUEUE_MINIMUM_LEFT_MS": 200,
    "MAX_OUTPUT_BYTES": 262144,
    "MAX_DEDUP_KEYS": 10000,
    "PAGE_SIZE_DEFAULT": 50,
    "PAGE_SIZE_MAX": 200,
    "INTERNAL_DEADLINE_MS": 1000,
    "FETCH_WORK_DEADLINE_MS": 1500,
    "WORKER_HEARTBEAT_DEADLINE_MS": 1000,
    "RETRY_INITIAL_DELAY_MS": 100,
    "RETRY_MULTIPLIER": 2.0,
    "RETRY_MAX_DELAY_MS": 1000,
    "RETRY_MAX_ATTEMPTS": 4,
}
DEADLINES_MS = {"SubmitJob": 3000, "CancelJob": 3000, "GetJobStatus": 1000, "GetJobResult": 1000, "ListJobs": 1000}


@pytest.mark.parametrize(("name", "value"), CONTRACT.items())
def test_a_number_is_the_contract_s(name: str, value: Any) -> None:
    assert getattr(limits, name) == value


def test_every_public_method_has_its_deadline() -> None:
    assert limits.PUBLIC_DEADLINES_MS == DEADLINES_MS


def test_what_a_request_may_carry_the_engine_can_keep() -> None:
    assert limits.MAX_CLIENT_REQUEST_ID_CHARACTERS <= engine.MAX_KEY_CHARACTERS
    assert limits.MAX_JOB_TYPE_CHARACTERS <= engine.MAX_TAG_CHARACTERS
    assert max(limits.MAX_LABEL_KEY_CHARACTERS, limits.MAX_LABEL_VALUE_CHARACTERS) <= engine.MAX_TAG_CHARACTERS
    assert limits.MAX_LABELS + 1 <= engine.MAX_TAGS
    assert limits.MAX_OUTPUT_BYTES * 4 / 3 + 1000 < engine.DEFAULT_RESULT_BYTES


def test_the_reference_names_every_number() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "grpc.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| (.+?) \|", page, re.MULTILINE))
    known = {name: value for name, value in vars(limits).items() if name.isupper() and not isinstance(value, dict)}
    assert {name: Fraction(text.replace(",", "")) for name, text in rows.items()} == known
