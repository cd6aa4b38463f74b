import pytest

from holdfast.designs.evaluation.generators import added, shares
from holdfast.designs.evaluation.histograms import Times
from holdfast.designs.evaluation.profiles import OPEN_CONNECTIONS
from holdfast.designs.evaluation.tally import Job, Tally, Window
from tests.unit.designs.evaluation.making import journey


def test_clients_are_split_and_none_is_lost() -> None:
    assert [part.clients for part in shares(journey(7), 3)] == [3, 2, 2]
    assert [part.clients for part in shares(journey(1), 3)] == [1]


def test_a_rate_is_split_evenly() -> None:
    cell = journey(0, loop="open", rate=90.0)
    assert [part.rate for part in shares(cell, 3)] == [30.0, 30.0, 30.0]


def test_every_client_has_its_own_connection() -> None:
    assert [part.connections for part in shares(journey(7), 3)] == [3, 2, 2]
    assert [part.connections for part in shares(journey(0, loop="open", rate=90.0), 2)] == [OPEN_CONNECTIONS] * 2


def one_tally(milliseconds: float) -> Tally:
    tally = Tally(Window(opens_at=0, closes_at=10), targets=2)
    tally.note("submit", began_at=1, ended_at=1 + milliseconds / 1000, counts=True)
    tally.sent["submit"] = [1, 2]
    tally.jobs.append(Job("x", 1.0, True))
    tally.error("status", "UNAVAILABLE")
    return tally


def test_what_generators_counted_is_added() -> None:
    both = added([one_tally(1).data(), one_tally(100).data()])
    assert both["calls"]["submit"] == 2
    assert both["accepted"] == 2
    assert both["ends"] == {"unknown": 2}
    assert both["errors"] == {"status UNAVAILABLE": 2}
    assert both["sent"]["submit"] == [2, 4]
    times = Times.decode(both["times"]["submit"])
    assert times.milliseconds(50) == pytest.approx(1, rel=0.01)
    assert times.milliseconds(100) == pytest.approx(100, rel=0.01)
