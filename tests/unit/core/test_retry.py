"""Backoff: every strategy with every jitter, and its bounds."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import limits
from holdfast.core.errors import InvalidInput
from holdfast.core.failures import RETRIABLE, Category, TemporaryError
from holdfast.core.retry import DEFAULT_RETRY, Jitter, Retry, Strategy, require_valid

RANDOM = st.floats(min_value=0, max_value=1, exclude_max=True)
POLICIES = st.builds(
    Retry,
    max_attempts=st.integers(1, 1000),
    strategy=st.sampled_from(Strategy),
    initial_delay=st.floats(0, 1e4),
    max_delay=st.floats(0, 1e5),
    multiplier=st.floats(1, 1000),
    jitter=st.sampled_from(Jitter),
    on=st.frozensets(st.sampled_from(sorted(RETRIABLE))),
)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (Strategy.CONSTANT, [2.0, 2.0, 2.0, 2.0, 2.0]),
        (Strategy.LINEAR, [2.0, 4.0, 6.0, 8.0, 10.0]),
        (Strategy.EXPONENTIAL, [2.0, 6.0, 18.0, 54.0, 60.0]),
        (Strategy.CUSTOM, [3.0, 4.0, 5.0, 6.0, 7.0]),
    ],
)
def test_each_strategy_computes_its_delays(strategy: Strategy, expected: list[float]) -> None:
    retry = Retry(
        strategy=strategy,
        initial_delay=2.0,
        max_delay=60.0,
        multiplier=3.0,
        jitter=Jitter.NONE,
        custom=lambda attempt, initial, _maximum: attempt + initial,
    )
    assert [retry.delay_seconds(n, random=0.7) for n in range(1, 6)] == expected


def test_the_default_policy_is_this() -> None:
    assert (DEFAULT_RETRY.max_attempts, DEFAULT_RETRY.strategy) == (3, Strategy.EXPONENTIAL)
    assert (DEFAULT_RETRY.initial_delay, DEFAULT_RETRY.max_delay, DEFAULT_RETRY.multiplier) == (1.0, 3600.0, 2.0)
    assert DEFAULT_RETRY.on == {Category.TEMPORARY, Category.TIMEOUT, Category.SYSTEM}


@given(attempt=st.integers(1, 5000), random=RANDOM)
def test_the_default_jitter_is_ten_percent_to_either_side(attempt: int, random: float) -> None:
    plain = min(2.0 ** min(attempt - 1, 20), 3600.0)
    delay = DEFAULT_RETRY.delay_seconds(attempt, random=random)
    assert plain * 0.9 - 1e-9 <= delay <= plain * 1.1 + 1e-9


@given(attempt=st.integers(1, 100), random=RANDOM)
def test_full_jitter_is_d2_s_policy(attempt: int, random: float) -> None:
    retry = Retry.full_jitter()
    assert retry.max_attempts == 4
    assert retry.delay_seconds(attempt, random=random) == pytest.approx(random * min(0.5 * 2 ** (attempt - 1), 30.0))


@given(retry=POLICIES, attempt=st.integers(1, 10_000), random=RANDOM)
def test_no_delay_is_negative_or_much_above_its_cap(retry: Retry, attempt: int, random: float) -> None:
    delay = retry.delay_seconds(attempt, random=random)
    assert 0 <= delay <= retry.max_delay * (1 + limits.PROPORTIONAL_JITTER)


def test_a_custom_delay_that_is_negative_is_none_and_one_unknown_here_is_exponential() -> None:
    negative = Retry(strategy=Strategy.CUSTOM, custom=lambda *_: -5.0, jitter=Jitter.NONE)
    assert negative.delay_seconds(1, random=0) == 0
    unknown = Retry(strategy=Strategy.CUSTOM, jitter=Jitter.NONE)
    assert [unknown.delay_seconds(n, random=0) for n in (1, 2, 3)] == [1, 2, 4]


@given(retry=POLICIES)
def test_a_policy_survives_storage(retry: Retry) -> None:
    assert Retry.from_data(retry.to_data(), max_attempts=retry.max_attempts) == retry


@pytest.mark.parametrize("category", list(Category))
def test_permanent_and_cancelled_are_never_retried(category: Category) -> None:
    everything = Retry(on=frozenset(Category))
    assert everything.retries(category) == (category in RETRIABLE)
    assert not Retry(on=frozenset()).retries(category)


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        (Retry(max_attempts=0), "retry.max_attempts"),
        (Retry(max_attempts=True), "retry.max_attempts"),
        (Retry(initial_delay=-1), "retry.initial_delay"),
        (Retry(max_delay=float("inf")), "retry.max_delay"),
        (Retry(multiplier=0.9), "retry.multiplier"),
        (Retry(on=frozenset({Category.PERMANENT})), "retry.on"),
    ],
)
def test_a_bad_policy_names_its_field(policy: Retry, field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        require_valid(policy)
    assert [fault.field for fault in refusal.value.faults] == [field]


def test_times_may_be_timedeltas_and_choices_their_names() -> None:
    given = Retry(
        strategy="linear", jitter="none", initial_delay=timedelta(minutes=1), max_delay=timedelta(hours=2), on=[]
    )
    assert given == Retry(
        strategy=Strategy.LINEAR, jitter=Jitter.NONE, initial_delay=60.0, max_delay=7200.0, on=frozenset()
    )
    assert TemporaryError(retry_after=timedelta(seconds=2)).retry_after == 2.0


def test_an_unknown_strategy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="constant, linear, exponential, custom"):
        Retry(strategy="fibonacci")  # type: ignore[arg-type]


def test_a_function_of_the_delay_is_used_without_naming_the_strategy() -> None:
    squared = Retry(custom=lambda attempt, _initial, _maximum: attempt**2, jitter="none")
    assert [squared.delay_seconds(n, random=0.5) for n in (1, 2, 3)] == [1, 4, 9]
