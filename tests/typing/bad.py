# mypy: ignore-errors
"""What a type checker must refuse: every line that ends in the marker, and no other. The test drops the first line."""

from holdfast import Context, Holdfast, Retry, chain, fan_in

app = Holdfast("memory://")


@app.job
async def resize(ctx: Context, path: str, width: int = 800) -> str:
    return path


@app.job(queue="media")
def add(a: int, b: int) -> int:
    return a + b


@app.job(isolation="process")
def measure(ctx: Context, path: str) -> float:
    return 1.0


@app.job()
async def nothing() -> None: ...


async def wrong_arguments() -> None:
    await resize.submit(3)  # refused
    await resize.submit("a.png", width="wide")  # refused
    await resize.submit()  # refused
    await resize.submit("a.png", height=3)  # refused
    await resize.submit("a.png", 3, 4)  # refused
    await add.submit(1, "2")  # refused
    await add.submit(1)  # refused
    await add.submit(1, 2, c=3)  # refused
    await measure.submit(b"a.png")  # refused
    await measure.submit("a.png", "b.png")  # refused
    await nothing.submit(1)  # refused


async def wrong_arguments_with_options() -> None:
    await resize.options(delay=3).submit(3)  # refused
    await add.options(key="order-7").submit(1)  # refused
    await add.options(key="order-7").submit(1, 2, c=3)  # refused
    await measure.options().submit()  # refused


def wrong_arguments_elsewhere() -> None:
    add.submit_sync("1", 2)  # refused
    add.call(1)  # refused
    resize.call("a.png", height=3)  # refused
    measure.options(delay=3).call(3)  # refused
    add(1, "2")  # refused


async def wrong_results() -> None:
    number: int = await (await resize.submit("a.png")).result()  # refused
    text: str = await (await add.submit(1, 2)).result()  # refused
    other: str = add.submit_sync(1, 2).result_sync()  # refused
    several: list[str] = [await one.result() for one in await app.submit_many([add.call(1, 2)])]  # refused
    last: str = await (await chain(nothing.call(), add.call(1, 2)).submit()).result()  # refused
    joined: str = await (await fan_in(nothing.call(), into=add.call(1, 2)).submit()).result()  # refused
    print(number, text, other, several, last, joined)  # noqa: T201


def wrong_options() -> None:
    resize.options(dely=3)  # refused
    resize.options(delay="3")  # refused
    resize.options(key=3)  # refused
    resize.options(after=3)  # refused
    resize.options(priority="high")  # refused
    app.job(que="media")  # refused
    app.job(isolation="greenlet")  # refused
    app.job(timeout="60")  # refused
    app.cron("* * * * *", que="media")  # refused
    app.cron(5)  # refused
    Retry(strategy="fibonacci")  # refused
    chain(add)  # refused
