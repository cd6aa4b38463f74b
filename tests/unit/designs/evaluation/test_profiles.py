from pathlib import Path

import pytest

from holdfast.core.errors import ConfigError
from holdfast.designs.evaluation.profiles import find_profile, read_profiles

GOOD = """
[mine]
rounds = 2
warm_up_seconds = 0.1
measure_seconds = 0.5
[[mine.workloads]]
name = "jobs"
pattern = "journey"
clients = [1, 8]
job_ms = [0, 50]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "profiles.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_workload_becomes_a_cell_for_every_load_and_duration(tmp_path: Path) -> None:
    profile = read_profiles(written(tmp_path, GOOD))["mine"]
    assert [cell.key for cell in profile.cells()] == ["jobs-c1-j0", "jobs-c8-j0", "jobs-c1-j50", "jobs-c8-j50"]


def test_the_full_profile_covers_what_is_promised() -> None:
    _, full = find_profile("full")
    closed = {cell.clients for cell in full.cells() if cell.loop == "closed"}
    assert {min(closed), max(closed)} == {1, 64}
    durations = {cell.job_ms for cell in full.cells()}
    assert {min(durations), max(durations)} == {0, 500}
    assert {cell.loop for cell in full.cells()} == {"closed", "open"}
    assert len({cell.mix for cell in full.cells() if cell.pattern == "mix"}) >= 3


def test_the_quick_profile_leaves_room_within_two_minutes() -> None:
    _, quick = find_profile("quick")
    windows = sum(quick.warm_up_seconds + quick.measure_seconds for _ in quick.cells())
    assert quick.rounds * 3 * windows < 70


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("clients = [1, 8]", "", "a closed loop has clients"),
        ("clients = [1, 8]", "clients = [0]", "clients"),
        ("clients = [1, 8]", "clients = [1, 8]\nrates = [5]", "no rates"),
        ("clients = [1, 8]", 'clients = [1]\nloop = "open"', "an open loop has rates"),
        ('pattern = "journey"', 'pattern = "mix"', "a mix needs mix"),
        ('pattern = "journey"', 'pattern = "mix"\nmix = { status = 1 }', "a mix needs mix"),
        ('pattern = "journey"', 'pattern = "mix"\nmix = { submit = 1, list = 1 }', "list"),
        ("job_ms = [0, 50]", "job_ms = [0, 50]\nmix = { submit = 1 }", "a journey has no mix"),
        ("job_ms = [0, 50]", "job_ms = []", "job_ms"),
        ("rounds = 2", "rounds = 0", "rounds"),
        ("rounds = 2", "rounds = 2\nslots = 129", "slots"),
        ("rounds = 2", "rounds = 2\nspeed = 1", "speed"),
        ("measure_seconds = 0.5", "measure_seconds = 0", "measure_seconds"),
        ("[mine]", "[mine", "is not TOML"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(ConfigError, match=said):
        read_profiles(written(tmp_path, GOOD.replace(old, new, 1)))


def test_two_workloads_of_one_name_are_refused(tmp_path: Path) -> None:
    second = GOOD[GOOD.index("[[") :]
    with pytest.raises(ConfigError, match="two workloads are named 'jobs'"):
        read_profiles(written(tmp_path, GOOD + second))


def test_a_profile_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="it has: quick, full"):
        find_profile("fast")
    with pytest.raises(ConfigError, match="it has: mine"):
        find_profile(f"{written(tmp_path, GOOD)}:other")
    with pytest.raises(ConfigError, match="cannot read"):
        find_profile(f"{tmp_path}/nowhere.toml:mine")
