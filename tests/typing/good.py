"""What a type checker must accept, and what it must know of it."""

from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_type
from uuid import UUID

from holdfast import (
    Call,
    Context,
    Holdfast,
    Job,
    JobHandle,
    JobType,
    Priority,
    Retry,
    State,
    TemporaryError,
    Workflow,
    chain,
    fan_in,
    fan_out,
)

app = Holdfast("memory://", permanent=(ValueError,), execution_limit=timedelta(hours=1))


@dataclass
class Image:
    path: str
    width: int


@app.job
async def resize(ctx: Context, path: str, width: int = 800) -> Image:
    return Image(path, width)


@app.job
def add(a: int, b: int) -> int:
    return a + b


@app.job(queue="media", priority=Priority.HIGH, retry=Retry(max_attempts=5), timeout=60, isolation="process")
def measure(ctx: Context, path: str) -> float:
    return 1.0


@app.job(retry=Retry(initial_delay=timedelta(seconds=2), strategy="constant"), timeout=timedelta(minutes=5))
async def publish(image: Image, *, title: str | None = None) -> None:
    raise TemporaryError("not yet", retry_after=timedelta(seconds=3))


@app.job()
async def nothing() -> None: ...


@app.cron("*/5 * * * *", timezone="Europe/Berlin", queue="media")
async def sweep(ctx: Context, limit: int = 10) -> int:
    return limit


@app.cron("30 2 * * *", name="nightly")
@app.job(timeout=60)
def count() -> int:
    return 1


def job_types_keep_their_types() -> None:
    kept: JobType[[int, int], int] = add
    assert_type(add.call(1, 2), Call[int])
    assert_type(resize.options(delay=timedelta(seconds=3)).call("a.png"), Call[Image])
    assert_type(kept.name, str)
    assert_type(sweep.call(limit=3), Call[int])
    assert_type(count(), int)


async def calling_runs_the_function(ctx: Context) -> None:
    assert_type(add(1, b=2), int)
    assert_type(measure(ctx, "a.png"), float)
    coroutine: Coroutine[Any, Any, Image] = resize(ctx, "a.png")
    assert_type(await coroutine, Image)
    assert_type(await nothing(), None)


async def results_are_what_functions_return() -> None:
    handle = await resize.submit("a.png", width=300)
    assert_type(handle, JobHandle[Image])
    assert_type(await handle.result(timeout=30), Image)
    assert_type(await (await add.submit(1, b=2)).result(), int)
    assert_type(await (await nothing.submit()).result(timeout=timedelta(seconds=1)), None)
    assert_type((await handle.job()).state, State)
    assert_type(handle.id, UUID)
    later = await publish.options(key="order-7", after=[handle], after_any=handle, tags={"a": "b"}).submit(
        Image("a.png", 1), title="Sea"
    )
    assert_type(await later.result(), None)
    assert_type(resize.handle(handle.id), JobHandle[Image])


def programs_without_a_loop() -> None:
    assert_type(add.submit_sync(1, 2).result_sync(timeout=1), int)
    assert_type(add.options(delay=1).submit_sync(a=1, b=2), JobHandle[int])
    assert_type(app.submit_many_sync([add.call(1, 2)]), list[JobHandle[int]])
    assert_type(app.get_sync("6f1f3fd4-3f2c-4d2f-8b6e-0d5c0d6f9f1e"), Job)


async def several_at_once() -> None:
    assert_type(await app.submit_many([add.call(1, 2), add.call(3, 4)], key="order-7"), list[JobHandle[int]])
    assert_type(await app.submit("resize", {"path": "a.png"}, delay=10), JobHandle[Any])
    page = await app.list(states=[State.FAILED, State.DEAD_LETTER], queue="media", limit=10)
    assert_type(page.jobs, tuple[Job, ...])


async def workflows() -> None:
    assert_type(chain(nothing.call(), add.call(1, 2)), Workflow[int])
    assert_type(chain(nothing.call(), add.call(1, 2), resize.call("a.png")), Workflow[Image])
    assert_type(fan_out(nothing.call(), add.call(1, 2), add.call(3, 4)), Workflow[list[int]])
    assert_type(fan_in(add.call(1, 2), nothing.call(), into=measure.call("a.png")), Workflow[float])
    nested = chain(nothing.call(), fan_out(nothing.call(), add.call(1, 2)), measure.call("a.png"))
    assert_type(await (await nested.submit(key="order-7")).result(timeout=3), float)


async def inside_a_handler(ctx: Context) -> None:
    ctx.progress(50, "half way")
    assert_type(ctx.spawn(add.call(1, 2)), UUID)
