"""Jobs that wait for each other: many side by side, then one that reads their results; and a job that spawns others.

Run it:

    python examples/workflow.py
"""

import asyncio

from holdfast import Context, Holdfast, chain, fan_in

app = Holdfast("sqlite:///workflow.db")


@app.job
async def count_words(text: str) -> int:
    return len(text.split())


@app.job
async def add_up(ctx: Context) -> int:
    return sum(ctx.results)  # of the jobs that this one waited for


@app.job
async def announce(ctx: Context, title: str) -> str:
    (total,) = ctx.results
    return f"{title}: {total} words"


@app.job
async def split(ctx: Context, text: str) -> int:
    """How many parts there are is known only while the job runs: it spawns a child for each."""
    lines = text.splitlines()
    for line in lines:
        ctx.spawn(count_words.call(line))
    return len(lines)


@app.job
async def finish(ctx: Context) -> str:
    lines, *words = ctx.results  # first the spawner's, then its children's
    return f"{lines} lines, {sum(words)} words"


async def main() -> None:
    async with app, app.worker():
        texts = ["the quick brown fox", "jumps over", "the lazy dog"]
        counted = fan_in(*[count_words.call(text) for text in texts], into=add_up.call())
        handle = await chain(counted, announce.call("a pangram")).submit()
        print(await handle.result(timeout=30))

        # Behind a job that spawns, a fan-in waits for the children, too.
        spawned = await fan_in(split.call("\n".join(texts)), into=finish.call()).submit()
        print(await spawned.result(timeout=30))


if __name__ == "__main__":
    asyncio.run(main())
