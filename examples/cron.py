"""A job that runs by the calendar: here every second, for a few seconds.

Run it:

    python examples/cron.py

However many workers run, each slot fires once. Of the slots that nobody was there for, the newest fires once.
"""

import asyncio

from holdfast import Holdfast, State

app = Holdfast("sqlite:///cron.db")


@app.cron("* * * * * *")  # six fields: with seconds; five are minute, hour, day, month, weekday
async def tidy_up() -> str:
    return "tidied up"


@app.cron("30 2 * * MON", timezone="Europe/Berlin", queue="reports")
async def weekly_report() -> None:
    """Half past two every Monday, in Berlin."""


async def main() -> None:
    async with app, app.worker(), app.worker():
        while True:
            page = await app.list(type="tidy_up", states=State.COMPLETED)
            if len(page.jobs) >= 2:
                break
            await asyncio.sleep(0.1)
    for job in page.jobs[:2]:
        print(f"tidied up at {job.created_at:%H:%M:%S}")


if __name__ == "__main__":
    asyncio.run(main())
