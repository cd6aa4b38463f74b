"""Whole programs, as somebody would write them in one file."""

import asyncio
import subprocess
import sys
from pathlib import Path

from holdfast import State
from holdfast.wiring import create_store

CARELESS = """
import asyncio
from holdfast import Holdfast

app = Holdfast("sqlite:///jobs.db")

@app.job(isolation="process")
def add(first: int, second: int) -> int:
    return first + second

async def main():
    async with app, app.worker():
        handle = await add.submit(1, 2)
        try:
            print(await handle.result(timeout=60))
        except Exception as error:
            print(error)

asyncio.run(main())
"""


async def test_a_program_without_a_main_guard_is_told_so_and_submits_nothing_twice(tmp_path: Path) -> None:
    """Its child imports it to find the handler, and so comes to the submit as well."""
    (tmp_path / "careless.py").write_text(CARELESS)
    command = [sys.executable, "careless.py"]
    ran = await asyncio.to_thread(
        subprocess.run, command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert 'if __name__ == "__main__":' in ran.stdout + ran.stderr
    store = create_store(f"sqlite:///{tmp_path / 'jobs.db'}")
    await store.open()
    try:
        (queue,) = await store.read_queues()
        assert sum(queue.counts.values()) == 1
        assert queue.counts.get(State.COMPLETED, 0) == 0
    finally:
        await store.close()
