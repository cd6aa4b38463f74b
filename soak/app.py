"""The app under load. Real workers run it: ``holdfast worker soak.app:app``.

Handlers do next to nothing, so that the queue is what is measured. Each marks the number of its job as done.
"""

import os
from functools import cache
from pathlib import Path
from typing import Final

from holdfast import Context, Holdfast, Retry, TemporaryError
from soak.marks import Marks

DONE_VARIABLE: Final = "SOAK_DONE"
RETENTION_VARIABLE: Final = "SOAK_RETENTION_SECONDS"
RETENTION_SECONDS: Final = float(os.environ.get(RETENTION_VARIABLE, "20"))
"""So short that nearly all jobs of a run have come and gone before it ends."""

app = Holdfast(completed_retention=RETENTION_SECONDS, dead_retention=RETENTION_SECONDS)


@cache
def done() -> Marks:
    return Marks(Path(os.environ[DONE_VARIABLE]))


@app.job(retry=Retry(max_attempts=5, strategy="constant", initial_delay=0.5))
async def work(ctx: Context, number: int, *, fails: int = 0) -> int:
    if ctx.attempt <= fails:
        raise TemporaryError("as it was told")
    done().set(number)
    return number


@app.job()
def work_in_thread(number: int) -> int:
    done().set(number)
    return number
