"""The app whose jobs are under fire: handlers on the loop, in threads and in child processes, all writing the ledger.

Real workers run it: ``holdfast worker chaos.app:app``. What a handler returns, raises and checkpoints names the token
it ran under, so that the checker can tell which lease a stored word came from.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import holdfast.stores.postgres.database as postgres_database
from chaos import clock, fence, ledger, scale
from holdfast import Context, Holdfast, Retry, TemporaryError
from holdfast.core.commands import Tick
from holdfast.wiring import create_store
from holdfast.worker.options import WorkerOptions
from holdfast.worker.worker import Worker

clock.follow()
fence.break_if_asked()
setattr(postgres_database, "COMMAND_TIMEOUT_SECONDS", scale.COMMAND_SECONDS)  # noqa: B010 - a constant for everybody else

WATCHED_SECONDS: Final = 0.1
"""How often a plain function looks whether it shall stop."""
MEBIBYTE: Final = 1024 * 1024


class ChaosApp(Holdfast):
    """Workers of this app live by the run's times."""

    def worker(self, **options: Any) -> Worker:  # whatever the command line gives
        given = {name: value for name, value in options.items() if value is not None and name != "grace"}
        return Worker(
            self.store,
            registry=self.registry,
            options=WorkerOptions(
                **given,
                grace_seconds=float(options.get("grace", 0.0)),
                heartbeat_seconds=scale.HEARTBEAT_SECONDS,
                tick=Tick(worker_timeout_seconds=scale.WORKER_TIMEOUT_SECONDS),
                tick_seconds=scale.TICK_SECONDS,
                poll_seconds=scale.POLL_SECONDS,
            ),
            create_pulse_store=lambda: create_store(self.url),
            logs=self.log_store,
        )


app = ChaosApp(submission_timeout=scale.SUBMISSION_SECONDS)
USUAL: Final = Retry(max_attempts=scale.USUAL_ATTEMPTS, strategy="constant", initial_delay=0.2)
SMALL: Final = Retry(max_attempts=scale.SMALL_BUDGET, strategy="constant", initial_delay=0.2)


@app.job(queue="loop", retry=USUAL, visibility=scale.LEASE_SECONDS)
async def on_loop(ctx: Context, seconds: float = 0.0, *, fails: int = 0, says: str = "") -> str:
    _begin(ctx, says, "loop")
    if seconds:
        with _noted(ctx, "loop"):
            await ctx.checkpoint(str(ctx.attempt_id))
            await _rest(ctx, seconds)
    return _end(ctx, fails, "loop")


@app.job(queue="thread", retry=USUAL, visibility=scale.LEASE_SECONDS)
def in_thread(ctx: Context, seconds: float = 0.0, *, fails: int = 0, says: str = "") -> str:
    _begin(ctx, says, "thread")
    if seconds:
        with _noted(ctx, "thread"):
            ctx.checkpoint_sync(str(ctx.attempt_id))
            _sleep(ctx, seconds, "thread")
    return _end(ctx, fails, "thread")


@app.job(queue="process", isolation="process", retry=USUAL, visibility=scale.LEASE_SECONDS)
def in_process(ctx: Context, seconds: float = 0.0, *, fails: int = 0, says: str = "", mebibytes: int = 0) -> str:
    _begin(ctx, says, "process")
    ballast = _eat(mebibytes)
    if seconds:
        with _noted(ctx, "process"):
            ctx.checkpoint_sync(str(ctx.attempt_id))
            _sleep(ctx, seconds, "process")
    ballast += _eat(mebibytes)
    return _end(ctx, fails, "process")


def _eat(mebibytes: int) -> list[bytearray]:
    return [bytearray(MEBIBYTE) for _ in range(mebibytes)]


def _begin(ctx: Context, says: str, kind: ledger.Kind) -> None:
    _note(ctx, "start", kind)
    if says:
        ctx.log.info("%s says %s", ctx.attempt_id, says)


def _note(ctx: Context, event: ledger.Event, kind: ledger.Kind) -> None:
    ledger.append(event, job_id=ctx.job_id, attempt=ctx.attempt, token=ctx.attempt_id, kind=kind)


@contextmanager
def _noted(ctx: Context, kind: ledger.Kind) -> Iterator[None]:
    """Around what takes a while: the ledger knows when it stopped, however it did."""
    try:
        yield
    finally:
        _note(ctx, "stop", kind)


async def _rest(ctx: Context, seconds: float) -> None:
    ends_at = time.monotonic() + seconds
    while (left := ends_at - time.monotonic()) > 0:
        _note(ctx, "alive", "loop")
        await asyncio.sleep(min(left, WATCHED_SECONDS))


def _sleep(ctx: Context, seconds: float, kind: ledger.Kind) -> None:
    """A plain function that can be stopped ends early, and says so."""
    ends_at = time.monotonic() + seconds
    while (left := ends_at - time.monotonic()) > 0:
        if ctx.cancelled:
            raise TemporaryError(f"{ctx.attempt_id} was told to stop")
        _note(ctx, "alive", kind)
        time.sleep(min(left, WATCHED_SECONDS))


def _end(ctx: Context, fails: int, kind: ledger.Kind) -> str:
    if ctx.attempt <= fails:
        raise TemporaryError(f"{ctx.attempt_id} fails as it was told")
    _note(ctx, "end", kind)
    return str(ctx.attempt_id)
