"""The compose files start the designs as they are compared: six containers, six slots, each told what it needs."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from holdfast.cli import build_parser
from holdfast.designs.services.settings import Settings, settings_of

ROOT = Path(__file__).parents[4]
SERVICES = {"gateway", "job", "queue", "coordinator", "worker", "result"}
NODES = [f"node-{number}" for number in range(6)]


def composed(design: str) -> dict[str, Any]:
    """With the defaults of its variables."""
    text = (ROOT / "docker" / f"compose.design-{design}.yml").read_text(encoding="utf-8")
    services: dict[str, Any] = yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text))["services"]
    return services


def settings(service: dict[str, Any]) -> Settings:
    given = {name: str(value) for name, value in service["environment"].items()}
    return settings_of(build_parser(["cluster"]).parse_args(service["command"]), given)


def test_design_a_is_six_services_and_its_worker_has_all_slots() -> None:
    services = composed("a")
    assert set(services) == SERVICES
    told = {name: settings(service) for name, service in services.items()}
    assert all(one.role == name for name, one in told.items())
    assert told["worker"].slots == 6
    assert {one.listen for one in told.values()} == {"0.0.0.0:50051"}
    for name in ("gateway", "coordinator"):
        assert (told[name].job, told[name].queue, told[name].result) == ("job:50051", "queue:50051", "result:50051")
    assert told["worker"].coordinator == "coordinator:50051"


def test_design_b_is_six_nodes_with_a_slot_each() -> None:
    services = composed("b")
    told = [settings(service) for service in services.values()]
    assert list(services) == NODES
    assert [(one.role, one.slots, one.index) for one in told] == [("node", 1, number) for number in range(6)]
    assert {one.nodes for one in told} == {tuple(f"{name}:50051" for name in NODES)}


@pytest.mark.parametrize("design", ["a", "b"])
def test_every_container_has_a_health_check_and_is_published_on_loopback_at_most(design: str) -> None:
    for service in composed(design).values():
        assert service["healthcheck"]["test"] == ["CMD", "holdfast", "cluster", "check"]
        assert all(published.startswith("127.0.0.1:") for published in service.get("ports", []))


def test_clients_find_the_designs_where_the_command_line_puts_them() -> None:
    assert composed("a")["gateway"]["ports"] == ["127.0.0.1:50051:50051"]
    assert [node["ports"] for node in composed("b").values()] == [[f"127.0.0.1:{50061 + n}:50051"] for n in range(6)]


def test_the_base_image_is_an_argument() -> None:
    text = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
    assert "ARG BASE=python:3.11-slim\n" in text
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${BASE}", "${BASE}"]
