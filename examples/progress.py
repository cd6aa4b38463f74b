"""Progress for people, checkpoints for the next attempt.

Run it:

    python examples/progress.py

The import fails half-way the first time. The second attempt goes on from the checkpoint; no row is read twice.
"""

import asyncio
from collections.abc import Sequence

from holdfast import Context, Holdfast, Retry, TemporaryError

app = Holdfast("sqlite:///progress.db")
ROWS: Sequence[str] = [f"row {number}" for number in range(10)]


@app.job(retry=Retry(max_attempts=3, initial_delay=0.1))
async def import_rows(ctx: Context) -> list[str]:
    done: list[str] = ctx.last_checkpoint or []
    for row in ROWS[len(done) :]:
        done.append(row)
        ctx.progress(100 * len(done) / len(ROWS), f"{row} of {len(ROWS)}")
        if len(done) % 5 == 0:
            await ctx.checkpoint(done)  # returns after its commit
        if row == "row 6" and ctx.attempt == 1:
            raise TemporaryError("the source went away")
    return [f"attempt {ctx.attempt}", f"{len(done)} rows", f"{len(set(done))} different"]


async def main() -> None:
    async with app, app.worker():
        handle = await import_rows.submit()
        result = await handle.result(timeout=30)
        job = await handle.job()
        assert job.progress is not None
        print(f"{job.progress.percent:.0f} %: {job.progress.message}")
        print(", ".join(result))
        for attempt in await app.attempts(handle):
            print(f"attempt {attempt.number} failed: {attempt.failure.message}")


if __name__ == "__main__":
    asyncio.run(main())
