"""A periodic job of an app is run by the app's worker."""

import asyncio

from holdfast import Holdfast


async def test_a_worker_runs_the_periodic_jobs_of_its_app(url: str) -> None:
    app = Holdfast(url, logs="off")
    ran = asyncio.Event()

    @app.cron("* * * * * *")
    async def beat() -> None:
        ran.set()

    async with asyncio.timeout(60), app, app.worker():
        await ran.wait()
        assert {job.type for job in (await app.list()).jobs} == {"beat"}
