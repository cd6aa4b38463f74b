"""How an attempt ended, in one word: the label of metrics and the attribute of spans."""

from enum import StrEnum
from typing import assert_never

from holdfast.core.commands import Completed, Failed, HandedBack, Outcome, Stopped
from holdfast.core.failures import Category
from holdfast.worker.context import Context


class Ended(StrEnum):
    COMPLETED = "completed"
    RETRIED = "retried"
    FAILED = "failed"
    DEAD_LETTER = "dead_letter"
    CANCELLED = "cancelled"
    HANDED_BACK = "handed_back"
    RAISED = "raised"
    """A middleware further in raised; the worker makes a failure of it."""


def ended(outcome: Outcome, context: Context) -> Ended:
    """As the worker reports it; a cancel that came meanwhile may still make it CANCELLED in the store."""
    match outcome:
        case Completed():
            return Ended.COMPLETED
        case Stopped():
            return Ended.CANCELLED
        case HandedBack():
            return Ended.HANDED_BACK
        case Failed(failure=failure, retry_in_seconds=seconds):
            if failure.category is Category.CANCELLED:
                return Ended.CANCELLED
            if failure.category is Category.PERMANENT:
                return Ended.FAILED
            is_last = seconds is None or context.attempt >= context.max_attempts
            return Ended.DEAD_LETTER if is_last else Ended.RETRIED
        case _:
            assert_never(outcome)
