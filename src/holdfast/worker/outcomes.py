"""From what a handler did to an outcome that can be settled."""

import random
import traceback
from dataclasses import replace
from typing import Final

from holdfast.core.commands import Failed
from holdfast.core.failures import Category, Failure, PermanentError, TemporaryError, classify
from holdfast.core.job import ClaimedJob
from holdfast.core.retry import Strategy
from holdfast.worker.handler import Handler

AROUND_HANDLERS: Final = ("holdfast.worker.", "holdfast.app.", "holdfast.contrib.", "asyncio.")
"""Modules whose frames lie between the loop and a handler: they tell the reader of a trace nothing."""


def require_storable(result: bytes | None, limit_bytes: int) -> None:
    if result is not None and len(result) > limit_bytes:
        raise PermanentError(
            f"the result has {len(result)} bytes, the limit is {limit_bytes}; keep it elsewhere and return its address",
            code="result_too_large",
        )


def failed(handler: Handler, job: ClaimedJob, failure: Failure, *, retry_after: float | None = None) -> Failed:
    """With the delay before the next attempt, if this kind of failure has one."""
    retry = job.options.retry
    if not retry.retries(failure.category):
        return Failed(failure)
    if retry_after is not None:
        return Failed(failure, retry_after)
    if retry.strategy is Strategy.CUSTOM:
        retry = replace(retry, custom=handler.custom_delay)
    try:
        return Failed(failure, retry.delay_seconds(job.attempt, random=random.random()))
    except Exception:
        # The user's own function of the delay failed: the job must not be lost for it.
        return Failed(
            failure, replace(retry, strategy=Strategy.EXPONENTIAL).delay_seconds(job.attempt, random=random.random())
        )


def failed_with(handler: Handler, job: ClaimedJob, error: BaseException) -> Failed:
    retry_after = error.retry_after if isinstance(error, TemporaryError) else None
    return failed(handler, job, failure_of(error, permanent=handler.permanent), retry_after=retry_after)


def timed_out(handler: Handler, job: ClaimedJob, seconds: float) -> Failed:
    failure = Failure(category=Category.TIMEOUT, message=f"ran longer than its execution timeout of {seconds:g} s")
    return failed(handler, job, failure)


def failure_of(error: BaseException, *, permanent: tuple[type[BaseException], ...] = ()) -> Failure:
    return Failure(
        category=classify(error, permanent=permanent),
        message=text_of(error),
        error_type=f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins."),
        code=str(error.code) if isinstance(error, PermanentError) else "",
        trace="" if _is_about_values(error) else trace_of(error),
    ).bounded()


def _is_about_values(error: BaseException) -> bool:
    """Said of a payload or a result by this package: the message has it all, the trace nothing of the user's."""
    return isinstance(error, PermanentError) and error.code in (
        "payload_mismatch",
        "result_not_json",
        "result_too_large",
    )


def text_of(error: BaseException) -> str:
    """What an error says of itself; a handler's errors may even fail at that."""
    if isinstance(error, SystemExit):
        return f"the handler called sys.exit({error.code!r}): return or raise instead"
    try:
        return str(error) or type(error).__name__
    except Exception as second:
        return f"{type(error).__name__}, whose text could not be made: {type(second).__name__}"


def trace_of(error: BaseException) -> str:
    """From the first frame of the user's on; of an error of our own, all of it."""
    begin = error.__traceback__
    while begin is not None and str(begin.tb_frame.f_globals.get("__name__")).startswith(AROUND_HANDLERS):
        begin = begin.tb_next
    if begin is None:
        begin = error.__traceback__
    try:
        return "".join(traceback.format_exception(type(error), error, begin))
    except Exception:
        return "".join(traceback.format_tb(begin))
