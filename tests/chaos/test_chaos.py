"""The short form of ``make chaos``: every kind of fault once in each run, and nothing lost."""

import secrets
import sys

import pytest

from chaos.history import Answer
from chaos.report import Report
from chaos.run import Settings, run

JOBS = 2500
SECONDS = {"postgres": 20.0, "sqlite": 14.0, "standby": 20.0}


def say(what: str) -> None:
    """What pytest shows of a test that fails."""
    sys.stdout.write(f"{what}\n")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("store", ["postgres", "sqlite", pytest.param("standby", marks=pytest.mark.long)])
async def test_nothing_is_lost_under_fire(store: str) -> None:
    settings = Settings(store=store, seed=secrets.token_hex(4), jobs=JOBS, seconds=SECONDS[store], strikes_a_fault=1)
    say(f"seed {settings.seed}")
    outcome = await run(settings, say)
    say(Report(command="", seed=settings.seed, outcomes=[outcome]).text())
    assert outcome.holds, outcome.verdict.examples() + outcome.problems
    assert set(outcome.strikes | outcome.idle_strikes) == set(settings.faults)
    assert outcome.verdict.answers[Answer.ACKNOWLEDGED] > 0
    assert outcome.verdict.attempts >= outcome.verdict.states["COMPLETED"] > 0
