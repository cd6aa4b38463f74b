"""Another app on the same queues, with types of its own: the workers of one never take the jobs of the other.

Workers of its own run it: ``holdfast worker chaos.second:app``.
"""

from chaos import scale
from chaos.base import USUAL, ChaosApp, begin, end, noted, rest, sleep
from holdfast import Context

app = ChaosApp(submission_timeout=scale.SUBMISSION_SECONDS)


@app.job(queue="loop", retry=USUAL, visibility=scale.LEASE_SECONDS)
async def second_on_loop(ctx: Context, seconds: float = 0.0, *, fails: int = 0, says: str = "") -> str:
    begin(ctx, says, "loop")
    if seconds:
        with noted(ctx, "loop"):
            await ctx.checkpoint(str(ctx.attempt_id))
            await rest(ctx, seconds)
    return end(ctx, fails, "loop")


@app.job(queue="thread", retry=USUAL, visibility=scale.LEASE_SECONDS)
def second_in_thread(ctx: Context, seconds: float = 0.0, *, fails: int = 0, says: str = "") -> str:
    begin(ctx, says, "thread")
    if seconds:
        with noted(ctx, "thread"):
            ctx.checkpoint_sync(str(ctx.attempt_id))
            sleep(ctx, seconds, "thread")
    return end(ctx, fails, "thread")
