"""What the apps under fire have in common: the run's times, and what their handlers write to the ledger.

What a handler returns, raises and checkpoints names the token it ran under, so that the checker can tell which lease a
stored word came from. Importing this scales the times of the store, for this process only.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import ModuleType
from typing import Any, Final

import holdfast.stores.postgres.cursors as postgres_cursors
import holdfast.stores.postgres.database as postgres_database
import holdfast.stores.postgres.marks as postgres_marks
import holdfast.stores.postgres.sweeps as postgres_sweeps
import holdfast.stores.sqlite.cursors as sqlite_cursors
from chaos import clock, fence, ledger, scale
from holdfast import Context, Holdfast, Retry, TemporaryError
from holdfast.core.commands import Tick
from holdfast.wiring import create_delivery, create_store
from holdfast.worker.options import WorkerOptions
from holdfast.worker.worker import Worker

WATCHED_SECONDS: Final = 0.1
"""How often a plain function looks whether it shall stop."""
SCALED: Final = (
    (postgres_cursors, "SEARCH_SECONDS"),
    (postgres_marks, "FULL_LOOK_SECONDS"),
    (postgres_marks, "OVERLAP_SECONDS"),
    (postgres_sweeps, "FULL_SWEEP_SECONDS"),
    (postgres_sweeps, "SWEEP_OVERLAP"),
    (postgres_sweeps, "UNKNOWN_LEASES_SECONDS"),
    (sqlite_cursors, "SEARCH_SECONDS"),
)
"""How often a store looks from the beginning, and how far back it looks otherwise: constants for everybody else."""


def set_scale() -> None:
    setattr(postgres_database, "COMMAND_TIMEOUT_SECONDS", scale.COMMAND_SECONDS)  # noqa: B010 - it is Final
    for module, name in SCALED:
        _scale(module, name)


def _scale(module: ModuleType, name: str) -> None:
    value: float | timedelta = getattr(module, name)
    setattr(module, name, value * scale.SWEEP_SCALE)


clock.follow()
fence.break_if_asked()
set_scale()

USUAL: Final = Retry(max_attempts=scale.USUAL_ATTEMPTS, strategy="constant", initial_delay=0.2)
SMALL: Final = Retry(max_attempts=scale.SMALL_BUDGET, strategy="constant", initial_delay=0.2)


class ChaosApp(Holdfast):
    """Workers of this app live by the run's times."""

    def worker(self, **options: Any) -> Worker:  # whatever the command line gives
        given = {name: value for name, value in options.items() if value is not None and name != "grace"}
        return Worker(
            self.store,
            delivery=create_delivery(self.store),
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


def begin(ctx: Context, says: str, kind: ledger.Kind) -> None:
    _note(ctx, "start", kind)
    if says:
        ctx.log.info("%s says %s", ctx.attempt_id, says)


def _note(ctx: Context, event: ledger.Event, kind: ledger.Kind) -> None:
    ledger.append(event, job_id=ctx.job_id, attempt=ctx.attempt, token=ctx.attempt_id, kind=kind)


@contextmanager
def noted(ctx: Context, kind: ledger.Kind) -> Iterator[None]:
    """Around what takes a while: the ledger knows when it stopped, however it did."""
    try:
        yield
    finally:
        _note(ctx, "stop", kind)


async def rest(ctx: Context, seconds: float) -> None:
    ends_at = time.monotonic() + seconds
    while (left := ends_at - time.monotonic()) > 0:
        _note(ctx, "alive", "loop")
        await asyncio.sleep(min(left, WATCHED_SECONDS))


def sleep(ctx: Context, seconds: float, kind: ledger.Kind) -> None:
    """A plain function that can be stopped ends early, and says so."""
    ends_at = time.monotonic() + seconds
    while (left := ends_at - time.monotonic()) > 0:
        if ctx.cancelled:
            raise TemporaryError(f"{ctx.attempt_id} was told to stop")
        _note(ctx, "alive", kind)
        time.sleep(min(left, WATCHED_SECONDS))


def end(ctx: Context, fails: int, kind: ledger.Kind) -> str:
    if ctx.attempt <= fails:
        raise TemporaryError(f"{ctx.attempt_id} fails as it was told")
    _note(ctx, "end", kind)
    return str(ctx.attempt_id)
