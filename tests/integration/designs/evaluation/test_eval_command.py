"""``holdfast eval`` as a process: a run of a few seconds, and whether its accounts add up."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from holdfast.designs.evaluation import samples, usage
from holdfast.designs.evaluation.histograms import Times
from holdfast.designs.evaluation.samples import Sample
from holdfast.stores.postgres import migrate

PROFILE = """
[tiny]
rounds = 1
warm_up_seconds = 0.1
measure_seconds = 0.5
[[tiny.workloads]]
name = "jobs"
pattern = "journey"
clients = [4]
drain_seconds = 30
[[tiny.workloads]]
name = "reads"
pattern = "mix"
clients = [2]
mix = { submit = 1, status = 2, result = 1 }
drain_seconds = 30
[[tiny.workloads]]
name = "arrivals"
pattern = "journey"
loop = "open"
rates = [20]
drain_seconds = 30
"""
LEAVING = """
[tiny]
rounds = 1
warm_up_seconds = 0.1
measure_seconds = 0.5
[[tiny.workloads]]
name = "left"
pattern = "mix"
clients = [2]
job_ms = [300]
mix = { submit = 1 }
drain_seconds = 0
[[tiny.workloads]]
name = "jobs"
pattern = "journey"
clients = [2]
drain_seconds = 30
"""
HOLDFAST = (sys.executable, "-m", "holdfast", "eval")
START_SECONDS = 60.0


def holdfast(*arguments: str, folder: Path, profile: str = PROFILE) -> subprocess.CompletedProcess[str]:
    (folder / "profiles.toml").write_text(profile, encoding="utf-8")
    return subprocess.run([*HOLDFAST, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def require_sums(sample: Sample) -> None:
    """Nothing that was sent, accepted or counted is missing anywhere else."""
    refused = sum(count for code, count in sample.errors.items() if code.startswith("submit "))
    assert sum(sample.sent["submit"]) == sample.accepted + refused
    assert sample.ends == {"done": sample.accepted}
    assert 0 < sample.done_in_window <= sample.accepted
    for operation, count in sample.calls.items():
        assert count <= sum(sample.sent[operation])
        assert count == Times.decode(sample.times[operation]).count
    assert Times.decode(sample.submit_to_done).count <= sample.accepted
    assert sample.design_cpu_seconds is not None
    assert sample.memory_mib is not None
    assert 10 < sample.memory_mib < 2000


@pytest.mark.timeout(300)
def test_a_run_measures_every_design_and_its_accounts_add_up(tmp_path: Path) -> None:
    # Forced: other tests use the machine, too.
    done = holdfast("--profile", "profiles.toml:tiny", "--force", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / json.loads(done.stdout)["results"]
    measured = samples.read(folder / "samples.jsonl")
    assert {(one.design, one.cell.workload) for one in measured} == {
        (design, workload) for design in ("a", "b", "durable") for workload in ("jobs", "reads", "arrivals")
    }
    for sample in measured:
        require_sums(sample)
        targets = 6 if sample.design == "b" else 1
        assert len(sample.sent["submit"]) == targets
        assert max(sample.sent["submit"]) - min(sample.sent["submit"]) <= 1
    report = (folder / "report.md").read_text(encoding="utf-8")
    for part in ("## What was found", "## How sure this is", "## Why", "## Fairness", "Design A", "Durable engine"):
        assert part in report
    assert "<svg" in (folder / "report.html").read_text(encoding="utf-8")
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["evaluation-tiny"]
    again = holdfast("--report", str(folder.relative_to(tmp_path)), folder=tmp_path)
    assert again.returncode == 0, again.stderr
    assert (folder / "report.md").read_text(encoding="utf-8") == report


async def waiting_jobs(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM holdfast.ready"))
    finally:
        await connection.close()


@pytest.mark.timeout(300)
def test_on_postgresql_nothing_is_left_over_and_the_password_stays_out_of_the_report(
    tmp_path: Path, postgres_url: str
) -> None:
    asyncio.run(migrate.upgrade(postgres_url))
    parts = urlsplit(postgres_url)
    login = f"{parts.username or 'postgres'}:secret@"
    url = urlunsplit(parts._replace(netloc=login + parts.netloc.rpartition("@")[2]))
    given = ("--designs", "durable-postgres", "--postgres", url, "--force")
    done = holdfast("--profile", "profiles.toml:tiny", *given, folder=tmp_path, profile=LEAVING)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "results" / "evaluation-tiny"
    left, jobs = samples.read(folder / "samples.jsonl")
    assert left.design == "durable-postgres"
    assert left.ends["unknown"] == left.accepted > 0
    require_sums(jobs)
    assert asyncio.run(waiting_jobs(postgres_url)) == 0
    for path in folder.iterdir():
        assert "secret" not in path.read_text(encoding="utf-8"), path.name


@pytest.mark.timeout(300)
def test_nothing_is_left_running_when_it_is_killed(tmp_path: Path) -> None:
    (tmp_path / "profiles.toml").write_text(PROFILE, encoding="utf-8")
    command = [*HOLDFAST, "--profile", "profiles.toml:tiny", "--designs", "b", "--force"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "round 1: Design B" in process.stderr.readline()
        started = usage.tree(process.pid)[1:]
        assert len(started) >= 7
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + START_SECONDS
    while any(Path(f"/proc/{pid}").exists() for pid in started):
        assert time.monotonic() < deadline, "processes of the evaluation are still there"
        time.sleep(0.05)
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["evaluation-tiny.partial"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--profile", "fast"], 2, "there is no profile 'fast'"),
        (["--profile", "nowhere.toml:x"], 2, "cannot read the profiles"),
        (["--designs", "a,c"], 2, "are not designs"),
        (["--designs", "durable-postgres"], 2, "needs its database"),
        (["--address", "a=somewhere"], 2, "is not an address of a design"),
        (["--address", "b=127.0.0.1:1,127.0.0.1:2"], 1, "required: 6 different nodes"),
        (["--speed", "--address", "a=127.0.0.1:1"], 2, "leave out --address"),
        (["--report", "results/nothing"], 2, "is not an evaluation's folder"),
        (["--name", "../elsewhere"], 2, "is not a name for results"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(tmp_path: Path, arguments: list[str], code: int, said: str) -> None:
    done = holdfast(*arguments, folder=tmp_path)
    assert done.returncode == code
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "results").exists()
