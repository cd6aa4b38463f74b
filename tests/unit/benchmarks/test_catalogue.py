"""The systems' folders: what they must have, and what must not be in them."""

import json
import re

import pytest

from benchmarks.peers.catalogue import MEASURES, System, read_systems
from benchmarks.peers.report import versions
from benchmarks.peers.runs import NAMES

SYSTEMS = read_systems()


@pytest.fixture(params=SYSTEMS, ids=lambda system: str(system.name))
def system(request: pytest.FixtureRequest) -> System:
    found: System = request.param
    return found


def test_its_packages_are_pinned_and_name_no_host(system: System) -> None:
    if system.runtime == "python":
        text = (system.folder / "requirements.txt").read_text()
        pins = [line for line in text.splitlines() if line and not line.startswith("#")]
        assert all(re.match(r"[\w.-]+(\[[\w,-]+\])?==[\w.]+( ;.*)?(  # via .*)?$", pin) for pin in pins), pins
    elif system.runtime == "node":
        text = (system.folder / "package-lock.json").read_text() + (system.folder / ".npmrc").read_text()
        pinned = json.loads((system.folder / "package.json").read_text())["dependencies"].values()
        assert all(re.fullmatch(r"[\d.]+", version) for version in pinned)
        assert '"resolved"' not in text
    else:
        return
    assert "://" not in re.sub(r'"(url|funding)": .*', "", text)


def test_its_versions_can_be_told(system: System) -> None:
    assert re.search(r"\d", versions(system))


def test_it_can_be_told_when_all_its_jobs_are_done(system: System) -> None:
    for variant in system.variants:
        assert variant.pending or variant.store == "rabbitmq", variant.name
        assert set(variant.measures) <= set(NAMES)


def test_no_two_variants_have_the_same_name() -> None:
    names = [variant.name for system in SYSTEMS for variant in system.variants]
    assert len(names) == len(set(names))


def test_every_default_measure_exists() -> None:
    assert {name for measures in MEASURES.values() for name in measures} <= set(NAMES)
