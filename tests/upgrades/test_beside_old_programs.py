"""Programs of an earlier version are at work while the database is upgraded, and go on beside those of today."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.cli.exits import Exit
from tests.integration.postgres.databases import empty
from tests.upgrades.earlier import COMMIT, Earlier
from tests.upgrades.programs import REPOSITORY, Programs, programs, require_code_of

MANY = 1_000_000
A_WHILE_SECONDS = 3.0
LONG_SECONDS = 60.0

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return require_code_of(COMMIT, tmp_path_factory.mktemp("earlier") / "code")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of the earlier version, without jobs."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'jobs.db'}"
    url: str = request.getfixturevalue("postgres_url")
    Earlier("postgres").restore(url)
    asyncio.run(empty(url))
    return url


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(LONG_SECONDS):
        while not is_so():
            await asyncio.sleep(0.05)


def upgrade(url: str) -> None:
    """For SQLite this opens the file, as any program does."""
    command = [sys.executable, "-m", "holdfast", "migrate", "--url", url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == Exit.DONE, done.stderr


async def test_nothing_is_lost_or_doubled(url: str, old: Path, tmp_path: Path) -> None:
    new = REPOSITORY / "src"
    folder = tmp_path / "programs"
    folder.mkdir()
    with programs(url, folder) as world:
        before = [world.worker(f"old-{number}", old) for number in range(2)]
        submitting = world.submitter("old", old, 0, MANY)
        await until(lambda: sum(world.runs().values()) > 50)

        await asyncio.to_thread(upgrade, url)

        accepted = len(world.accepted("old"))
        has_run = [sum(world.runs_of(process.pid).values()) for process in before]
        await until(lambda: len(world.accepted("old")) > accepted + 50)
        await until(
            lambda: all(sum(world.runs_of(p.pid).values()) > n + 20 for p, n in zip(before, has_run, strict=True))
        )
        after = world.worker("new-0", new)
        also = world.submitter("new", new, MANY, 2 * MANY)
        # The same keys again, from the other version.
        repeated = world.submitter("repeats", new, 0, min(300, len(world.accepted("old"))))
        await until(lambda: sum(world.runs_of(after.pid).values()) > 50)
        await require_that_old_programs_start_no_more(world, old)
        await asyncio.sleep(A_WHILE_SECONDS)
        assert await world.stop(submitting, also) == [-15, -15]
        await until(lambda: repeated.poll() is not None)
        assert repeated.returncode == 0
        assert await world.stop(*before) == [0, 0]
        wanted = world.accepted("old", "new")
        await until(lambda: wanted <= world.runs().keys())
        assert await world.stop(after) == [0]
        require_once(world, wanted)
    doctor = ["doctor", "--url", url, "--deep", "--patience", "5"]
    assert await asyncio.to_thread(main, doctor) == Exit.DONE


async def require_that_old_programs_start_no_more(world: Programs, old: Path) -> None:
    late = world.worker("late", old)
    assert await asyncio.to_thread(late.wait, LONG_SECONDS) == Exit.WRONG
    assert "pgrade" in world.log("late").read_text(encoding="utf-8")


def require_once(world: Programs, wanted: set[int]) -> None:
    """Numbers without a key that were submitted twice ran twice: those that "repeats" was told to."""
    repeated = {number for number in world.accepted("repeats") if number % 3}
    runs = world.runs()
    doubled = {number for number, times in runs.items() if times != (2 if number in repeated else 1)}
    assert doubled == set()
    # A submitter that was stopped had one more submit under way at most.
    assert len(runs.keys() - wanted) <= 2


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_leases_of_an_old_worker_that_was_killed_are_reclaimed(url: str, old: Path, tmp_path: Path) -> None:
    """It has no proof of life that a worker of today could look at: its silence counts."""
    folder = tmp_path / "programs"
    folder.mkdir()
    with programs(url, folder) as world:
        before = world.worker("old-0", old)
        submitting = world.submitter("old", old, 0, 400)
        await until(lambda: sum(world.runs().values()) > 50)
        await asyncio.to_thread(upgrade, url)
        after = world.worker("new-0", REPOSITORY / "src")
        await until(lambda: sum(world.runs_of(after.pid).values()) > 10)
        before.kill()
        await until(lambda: submitting.poll() is not None)
        wanted = world.accepted("old")
        assert len(wanted) == 400
        await until(lambda: wanted <= world.runs().keys())
        assert await world.stop(after) == [0]
