"""What a role is told, by flags or by the environment."""

import socket

import pytest

from holdfast.core.errors import ConfigError
from holdfast.designs.services import settings

NODES = "h0:1,h1:1,h2:1"


def read(line: str, **environment: str) -> settings.Settings:
    return settings.read(line.split(), environment)


def test_a_flag_goes_before_the_environment() -> None:
    given = read("worker --coordinator a:1", HOLDFAST_COORDINATOR="b:1", HOLDFAST_LISTEN="0.0.0.0:5", WORKER_ID="w7")
    assert (given.coordinator, given.listen, given.worker_id) == ("a:1", "0.0.0.0:5", "w7")


def test_without_a_name_a_worker_has_its_hosts() -> None:
    assert read("worker --coordinator a:1").worker_id == socket.gethostname()


@pytest.mark.parametrize(
    ("line", "environment", "slots"),
    [
        ("worker --coordinator a:1", {}, 6),
        ("worker --coordinator a:1", {"TOTAL_WORKER_SLOTS": "12"}, 12),
        ("worker --coordinator a:1 --slots 2", {"TOTAL_WORKER_SLOTS": "12"}, 2),
        (f"node --nodes {NODES} --index 1", {}, 2),
        (f"node --nodes {NODES} --index 1", {"TOTAL_WORKER_SLOTS": "3"}, 1),
        ("node", {"HOLDFAST_NODES": NODES, "HOLDFAST_INDEX": "2"}, 2),
    ],
)
def test_the_total_of_slots_is_one_workers_or_shared_by_the_nodes(
    line: str, environment: dict[str, str], slots: int
) -> None:
    assert read(line, **environment).slots == slots


@pytest.mark.parametrize(
    ("line", "environment", "said"),
    [
        ("gateway --job a:1 --queue b:1", {}, "needs --result"),
        ("worker", {}, "needs --coordinator"),
        ("node", {}, "needs --nodes"),
        (f"node --nodes {NODES} --index 3", {}, "--index is 3"),
        (f"node --nodes {NODES} --index -1", {}, "--index"),
        (f"node --nodes {NODES}", {"HOLDFAST_INDEX": "x"}, "--index is 'x'"),
        ("node --nodes a:1,a:1 --slots 1", {}, "twice"),
        ("node --nodes a:1,b:1,c:1,d:1", {}, "share evenly"),
        ("worker --coordinator a:1 --slots 0", {}, "--slots is 0"),
        ("worker --coordinator a:1", {"TOTAL_WORKER_SLOTS": "many"}, "TOTAL_WORKER_SLOTS is 'many'"),
        ("job --log-level loud", {}, "LOUD"),
    ],
)
def test_what_is_missing_or_cannot_be_is_said(line: str, environment: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read(line, **environment)
