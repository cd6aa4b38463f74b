"""The app whose jobs are under fire: handlers on the loop, in threads and in child processes, all writing the ledger.

Real workers run it: ``holdfast worker chaos.app:app``, and ``chaos.pair`` two of them in one process.
"""

from typing import Final

from chaos import scale
from chaos.base import USUAL, ChaosApp, begin, end, noted, rest, sleep
from holdfast import Context

MEBIBYTE: Final = 1024 * 1024

app = ChaosApp(submission_timeout=scale.SUBMISSION_SECONDS)


@app.job(queue="loop", retry=USUAL, visibility=scale.LEASE_SECONDS)
async def on_loop(ctx: Context, seconds: float = 0.0, *, fails: int = 0, says: str = "") -> str:
    begin(ctx, says, "loop")
    if seconds:
        with noted(ctx, "loop"):
            await ctx.checkpoint(str(ctx.attempt_id))
            await rest(ctx, seconds)
    return end(ctx, fails, "loop")


@app.job(queue="thread", retry=USUAL, visibility=scale.LEASE_SECONDS)
def in_thread(ctx: Context, seconds: float = 0.0, *, fails: int = 0, says: str = "") -> str:
    begin(ctx, says, "thread")
    if seconds:
        with noted(ctx, "thread"):
            ctx.checkpoint_sync(str(ctx.attempt_id))
            sleep(ctx, seconds, "thread")
    return end(ctx, fails, "thread")


@app.job(queue="process", isolation="process", retry=USUAL, visibility=scale.LEASE_SECONDS)
def in_process(ctx: Context, seconds: float = 0.0, *, fails: int = 0, says: str = "", mebibytes: int = 0) -> str:
    begin(ctx, says, "process")
    ballast = _eat(mebibytes)
    if seconds:
        with noted(ctx, "process"):
            ctx.checkpoint_sync(str(ctx.attempt_id))
            sleep(ctx, seconds, "process")
    ballast += _eat(mebibytes)
    return end(ctx, fails, "process")


def _eat(mebibytes: int) -> list[bytearray]:
    return [bytearray(MEBIBYTE) for _ in range(mebibytes)]
