"""Handlers that run in child processes: a child imports this module and finds them here."""

import ctypes
import os
import time

from holdfast import Context, Holdfast, PermanentError, TemporaryError

app = Holdfast("memory://", logs="off")


@app.job(isolation="process")
def add(first: int, second: int) -> int:
    return first + second


@app.job(isolation="process")
async def say_who(ctx: Context) -> dict[str, object]:
    ctx.progress(40, "in the child")
    return {"pid": os.getpid(), "attempt": ctx.attempt, "results": ctx.results}


@app.job(isolation="process")
def loop_for_ever(path: str) -> None:
    with open(path, "w") as file:  # noqa: PTH123
        file.write(str(os.getpid()))
    while True:
        time.sleep(0.01)


@app.job(isolation="process")
def crash(how: str) -> None:
    if how == "exit":
        os._exit(3)
    if how == "segfault":
        ctypes.string_at(0)
    raise AssertionError(how)


@app.job(isolation="process")
def crash_once(ctx: Context) -> str:
    if ctx.last_checkpoint is None:
        ctx.checkpoint_sync("been here")
        os._exit(9)
    return str(ctx.last_checkpoint)


@app.job(isolation="process")
def fail(kind: str) -> None:
    if kind == "permanent":
        raise PermanentError("no", code="never")
    raise TemporaryError("later", retry_after=3600)


@app.job(isolation="process")
def spawn(ctx: Context) -> None:
    ctx.spawn(add.call(1, 2))
