"""What a failure is: exactly one of five categories, with the error that explains it.

Handlers raise ``TemporaryError`` or ``PermanentError`` to say which; anything else they raise is TEMPORARY unless
the app or the job names it as permanent. Whether a category is retried is the job's ``Retry(on=…)``; what a
failure does to the job is decided in ``decisions``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from holdfast.core import limits
from holdfast.core.times import Seconds, seconds_of


class Category(StrEnum):
    TEMPORARY = "TEMPORARY"
    PERMANENT = "PERMANENT"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"
    SYSTEM = "SYSTEM"


RETRIABLE: Final = frozenset({Category.TEMPORARY, Category.TIMEOUT, Category.SYSTEM})
"""The categories that may be retried at all; also what ``Retry(on=…)`` holds by default."""


class TemporaryError(Exception):
    """Raise in a handler: this may succeed later. ``retry_after`` (seconds, or a timedelta) overrides the backoff."""

    def __init__(self, message: str = "", *, retry_after: Seconds | None = None) -> None:
        super().__init__(message)
        seconds = None if retry_after is None else seconds_of(retry_after)
        if seconds is not None and seconds < 0:
            raise ValueError(f"retry_after must not be negative, got {retry_after}")
        self.retry_after = seconds


class PermanentError(Exception):
    """Raise in a handler: trying again would fail in the same way. ``code`` is for programs."""

    def __init__(self, message: str = "", *, code: str = "permanent") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why an attempt, or a job, ended without success."""

    category: Category
    message: str = ""
    error_type: str = ""
    code: str = ""
    trace: str = ""

    def bounded(self) -> "Failure":
        """Storable: text that every database takes, cut to its limit, the end of a trace kept."""
        return Failure(
            category=self.category,
            message=storable(self.message)[: limits.MAX_ERROR_MESSAGE_CHARACTERS],
            error_type=storable(self.error_type)[: limits.MAX_TYPE_CHARACTERS],
            code=storable(self.code)[: limits.MAX_TYPE_CHARACTERS],
            trace=storable(self.trace)[-limits.MAX_ERROR_TRACE_CHARACTERS :],
        )


def storable(text: str) -> str:
    # An error's text is nobody's input to correct: PostgreSQL refuses NUL and lone surrogates, so they are replaced.
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def classify(error: BaseException, *, permanent: Iterable[type[BaseException]] = ()) -> Category:
    """The category of what a handler raised; timeouts, cancels and dead children are known to the caller."""
    if isinstance(error, TemporaryError):
        return Category.TEMPORARY
    if isinstance(error, (PermanentError, *permanent)):
        return Category.PERMANENT
    if isinstance(error, TimeoutError):
        return Category.TIMEOUT
    return Category.TEMPORARY
