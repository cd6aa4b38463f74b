"""Waits on idle workers that take turns, on files, with the real producers and workers."""

from contextlib import ExitStack

import pytest

from benchmarks.bench import Progress
from benchmarks.curves.session import QUICK, SQLITE, Point, Session
from benchmarks.peers.measures import load
from benchmarks.peers.places import Stores
from benchmarks.peers.visits import Visit

JOBS = 6
TURN_JOBS = 4


def test_a_round_has_a_wait_for_each_job_that_counts_and_whoever_fails_is_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "TURN_JOBS", TURN_JOBS)
    visits: dict[str, Visit] = {}
    turns: list[tuple[int, str]] = []
    failed: list[str] = []

    def say(number: int, name: str) -> None:
        turns.append((number, name))
        if len(turns) == 5:
            visits[name].stop_workers()

    with Stores() as stores, ExitStack() as stack:
        session = Session(stores=stores, sizes=QUICK, progress=Progress(1.0))
        for x in (1, 2):
            here = stack.enter_context(session.visit(Point(series=SQLITE, store=SQLITE, x=x)))
            here.start_workers()
            here.warm_up()
            visits[str(x)] = here
        samples = load.measure_latency(visits, jobs=JOBS, rounds=2, say=say, fail=lambda name, _: failed.append(name))
        jobs_run = {name: visit.ledger.count for name, visit in visits.items()}

    (loser,) = failed
    (winner,) = set(visits) - {loser}
    assert turns[4] == (1, loser)
    assert [number for number, name in turns if name == loser] == [0, 0, 1]
    assert [number for number, name in turns if name == winner] == [0, 0, 1, 1]
    assert samples[loser][1] is None
    for sample in (samples[loser][0], *samples[winner]):
        assert sample is not None
        assert len(sample.waits) == JOBS
        assert min(sample.waits) > 0
        assert sample.figures["first"] is not None
    assert jobs_run[winner] - jobs_run[loser] == load.COLD_JOBS * 2 + JOBS
