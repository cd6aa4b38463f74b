"""The examples that are programs print what they say they do."""

import asyncio
from pathlib import Path

from holdfast.stores.postgres import migrate
from tests.examples.programs import EXAMPLES, run

TESTED_ELSEWHERE = {"fastapi_app.py", "django_view.py"}
TESTED_HERE = {
    "cron.py",
    "first_job.py",
    "process_isolation.py",
    "progress.py",
    "transactional_submit.py",
    "workflow.py",
}


def test_every_example_has_a_test_and_a_line_in_the_readme() -> None:
    names = {path.name for path in EXAMPLES.glob("*.py")}
    assert names == TESTED_HERE | TESTED_ELSEWHERE
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [name for name in sorted(names) if f"({name})" not in readme] == []


def test_the_first_job_greets(tmp_path: Path) -> None:
    assert run("first_job.py", tmp_path) == ["Hello, world"]


def test_a_workflow_reads_the_results_of_what_it_waited_for(tmp_path: Path) -> None:
    assert run("workflow.py", tmp_path) == ["a pangram: 9 words", "3 lines, 9 words"]


def test_an_attempt_goes_on_from_the_checkpoint_of_the_one_before(tmp_path: Path) -> None:
    assert run("progress.py", tmp_path) == [
        "100 %: row 9 of 10",
        "attempt 2, 10 rows, 10 different",
        "attempt 1 failed: the source went away",
    ]


def test_a_child_that_loops_or_crashes_fails_only_its_own_job(tmp_path: Path) -> None:
    assert run("process_isolation.py", tmp_path) == ["DEAD_LETTER TIMEOUT", "DEAD_LETTER SYSTEM", "144"]


def test_a_periodic_job_fires_once_a_slot_with_two_workers(tmp_path: Path) -> None:
    lines = run("cron.py", tmp_path)
    assert len(lines) == len(set(lines)) == 2


def test_a_job_is_rolled_back_with_its_order_on_sqlite(tmp_path: Path) -> None:
    assert run("transactional_submit.py", tmp_path) == ["no unicorn today", "receipt for anvil"]


def test_a_job_is_rolled_back_with_its_order_on_postgresql(tmp_path: Path, postgres_url: str) -> None:
    asyncio.run(migrate.upgrade(postgres_url))
    assert run("transactional_submit.py", tmp_path, DATABASE_URL=postgres_url) == [
        "no unicorn today",
        "receipt for anvil",
    ]
