"""When a failed attempt runs again.

Pure: a delay is computed from the attempt number, the policy and a random number given by the caller. Whether a
failure may be retried at all is said by its category and ``on``; whether attempts remain is decided in ``decisions``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

from holdfast.core import limits
from holdfast.core.errors import Fault, InvalidInput
from holdfast.core.failures import RETRIABLE, Category
from holdfast.core.times import Seconds, seconds_of

CustomDelay = Callable[[int, float, float], float]
"""(attempt number from 1, initial delay, maximal delay) → delay, all in seconds."""


class Strategy(StrEnum):
    CONSTANT = "constant"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"
    CUSTOM = "custom"


class Jitter(StrEnum):
    NONE = "none"
    PROPORTIONAL = "proportional"
    """±10 %."""
    FULL = "full"
    """Uniform between nothing and the whole delay."""


StrategyName = Literal["constant", "linear", "exponential", "custom"]
JitterName = Literal["none", "proportional", "full"]


def _known(kind: type[StrEnum], name: str, field: str) -> StrEnum:
    try:
        return kind(name)
    except ValueError:
        raise InvalidInput([Fault(field=f"retry.{field}", problem=f"is {name!r}", limit=", ".join(kind))]) from None


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class Retry:
    """How often, how soon and after which failures a job is tried again.

    ``custom`` lives in the program, not in the database: a worker that does not know it falls back to exponential.

    ::

        Retry(max_attempts=5)                                        # 1 s, 2 s, 4 s, 8 s; each ±10 %
        Retry(strategy="constant", initial_delay=timedelta(minutes=1))
        Retry(custom=lambda attempt, initial, maximum: attempt**2)
    """

    max_attempts: int = limits.DEFAULT_MAX_ATTEMPTS
    strategy: Strategy = Strategy.EXPONENTIAL
    initial_delay: float = limits.DEFAULT_INITIAL_DELAY_SECONDS
    max_delay: float = limits.DEFAULT_MAX_DELAY_SECONDS
    multiplier: float = limits.DEFAULT_MULTIPLIER
    jitter: Jitter = Jitter.PROPORTIONAL
    on: frozenset[Category] = RETRIABLE
    custom: CustomDelay | None = field(default=None, compare=False)

    def __init__(
        self,
        *,
        max_attempts: int = limits.DEFAULT_MAX_ATTEMPTS,
        strategy: Strategy | StrategyName | None = None,
        initial_delay: Seconds = limits.DEFAULT_INITIAL_DELAY_SECONDS,
        max_delay: Seconds = limits.DEFAULT_MAX_DELAY_SECONDS,
        multiplier: float = limits.DEFAULT_MULTIPLIER,
        jitter: Jitter | JitterName = Jitter.PROPORTIONAL,
        on: Iterable[Category] = RETRIABLE,
        custom: CustomDelay | None = None,
    ) -> None:
        """Times are seconds or timedelta; ``max_attempts`` counts the first one; ``custom`` alone means "custom"."""
        if strategy is None:
            strategy = Strategy.EXPONENTIAL if custom is None else Strategy.CUSTOM
        given = (
            ("max_attempts", max_attempts),
            ("strategy", _known(Strategy, strategy, "strategy")),
            ("initial_delay", seconds_of(initial_delay)),
            ("max_delay", seconds_of(max_delay)),
            ("multiplier", multiplier),
            ("jitter", _known(Jitter, jitter, "jitter")),
            ("on", frozenset(on)),
            ("custom", custom),
        )
        for name, value in given:
            object.__setattr__(self, name, value)

    @classmethod
    def full_jitter(cls, max_attempts: int = 4) -> "Retry":
        """For clients that must not come back all at once: random(0, min(0.5 · 2^(n−1), 30)) seconds."""
        return cls(max_attempts=max_attempts, initial_delay=0.5, max_delay=30.0, jitter=Jitter.FULL)

    def delay_seconds(self, attempt: int, *, random: float) -> float:
        """The wait after failed attempt ``attempt`` (from 1); ``random`` is uniform in [0, 1)."""
        plain = min(self._plain_delay_seconds(attempt), self.max_delay)
        match self.jitter:
            case Jitter.NONE:
                return plain
            case Jitter.PROPORTIONAL:
                return plain * (1 + limits.PROPORTIONAL_JITTER * (2 * random - 1))
            case Jitter.FULL:
                return plain * random

    def _plain_delay_seconds(self, attempt: int) -> float:
        match self.strategy:
            case Strategy.CONSTANT:
                return self.initial_delay
            case Strategy.LINEAR:
                return self.initial_delay * attempt
            case Strategy.CUSTOM if self.custom is not None:
                return max(0.0, self.custom(attempt, self.initial_delay, self.max_delay))
            case Strategy.EXPONENTIAL | Strategy.CUSTOM if self.initial_delay == 0:
                return 0.0  # not nothing times infinity
            case Strategy.EXPONENTIAL | Strategy.CUSTOM:
                return self.initial_delay * _bounded_power(self.multiplier, attempt - 1)

    def retries(self, category: Category) -> bool:
        return category in self.on and category in RETRIABLE

    def faults(self) -> Iterable[Fault]:
        """What is wrong with this policy, field by field."""
        if not _is_between(self.max_attempts, 1, limits.MAX_ATTEMPTS, kind=int):
            yield Fault(
                field="retry.max_attempts", problem=f"is {self.max_attempts!r}", limit=f"1 … {limits.MAX_ATTEMPTS}"
            )
        for name, value in (("initial_delay", self.initial_delay), ("max_delay", self.max_delay)):
            if not _is_between(value, 0, limits.MAX_DELAY_SECONDS):
                yield Fault(field=f"retry.{name}", problem=f"is {value!r}", limit=f"0 … {limits.MAX_DELAY_SECONDS} s")
        if not _is_between(self.multiplier, 1, 1000):
            yield Fault(field="retry.multiplier", problem=f"is {self.multiplier!r}", limit="1 … 1000")
        if not self.on <= RETRIABLE:
            wrong = ", ".join(sorted(self.on - RETRIABLE))
            yield Fault(field="retry.on", problem=f"{wrong} is never retried", limit=", ".join(sorted(RETRIABLE)))

    def to_data(self) -> dict[str, Any]:
        """What differs from the default, as JSON can carry it; ``max_attempts`` is a column of its own."""
        data: dict[str, Any] = {}
        for name in _STORED:
            value = getattr(self, name)
            if value != getattr(DEFAULT_RETRY, name):
                data[name] = sorted(value) if name == "on" else value
        return data

    @classmethod
    def from_data(cls, data: Mapping[str, Any], *, max_attempts: int) -> "Retry":
        if not data:
            return DEFAULT_RETRY if max_attempts == DEFAULT_RETRY.max_attempts else cls(max_attempts=max_attempts)
        given = dict(data)
        if "strategy" in given:
            given["strategy"] = Strategy(given["strategy"])
        if "jitter" in given:
            given["jitter"] = Jitter(given["jitter"])
        if "on" in given:
            given["on"] = frozenset(Category(name) for name in given["on"])
        return cls(max_attempts=max_attempts, **given)


_STORED: Final = ("strategy", "initial_delay", "max_delay", "multiplier", "jitter", "on")
DEFAULT_RETRY: Final = Retry()


def _is_between(value: Any, least: float, most: float, *, kind: Any = int | float) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool) and least <= value <= most


def _bounded_power(base: float, exponent: int) -> float:
    # 2.0 ** 1024 overflows; any delay is capped long before that.
    try:
        return float(base**exponent)
    except OverflowError:
        return float("inf")


def require_valid(retry: Retry) -> None:
    faults = tuple(retry.faults())
    if faults:
        raise InvalidInput(faults)
