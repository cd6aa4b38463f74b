"""The load generator as a process, against real servers."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from holdfast.core.errors import Unavailable
from holdfast.designs.evaluation import samples
from holdfast.designs.evaluation.fairness import UnfairRun
from holdfast.designs.evaluation.generators import Generators
from holdfast.designs.evaluation.histograms import Times
from holdfast.designs.evaluation.profiles import Cell, Mix, Profile, Workload
from holdfast.designs.evaluation.run import SAMPLES, Plan, Run
from holdfast.designs.evaluation.samples import Sample
from holdfast.designs.evaluation.systems import open_chain, open_design, open_echo
from holdfast.designs.evaluation.visits import System, measure

STALL_SECONDS = 0.6
RATE = 100.0


class Quiet:
    def __init__(self) -> None:
        self.steps: list[str] = []

    def begin(self, steps: int) -> None:
        pass

    def step(self, what: str) -> None:
        self.steps.append(what)


def submits(**given: object) -> Cell:
    values = {"workload": "submits", "pattern": "mix", "loop": "closed", "clients": 2, "mix": Mix(submit=1)}
    return Cell(**{**values, **given})  # type: ignore[arg-type]


async def one(cell: Cell, system: System, *, generators: int = 1, seconds: float = 0.5) -> Sample:
    async with Generators.started(generators) as running:
        await running.connect(system.targets)
        return await measure(
            cell, system, running, round_number=0, warm_up_seconds=0.1, measure_seconds=seconds, seed="1"
        )


async def stall(system: System) -> None:
    """The server stands still for a while, in the middle of the window."""
    assert system.processes is not None
    (pid,) = system.processes()
    await asyncio.sleep(1.0)
    os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(STALL_SECONDS)
    os.kill(pid, signal.SIGCONT)


def slow_calls(sample: Sample, *, milliseconds: float) -> float:
    """How many calls took at least that long."""
    times = Times.decode(sample.times["submit"])
    shares = [percent for percent in range(1, 101) if times.milliseconds(percent) >= milliseconds]
    return len(shares) / 100 * times.count


async def test_an_open_loop_charges_a_stall_to_everybody_who_was_due_meanwhile() -> None:
    cell = submits(loop="open", clients=0, rate=RATE)
    async with open_echo() as echo, Generators.started(1) as running:
        await running.connect(echo.targets)
        measuring = measure(cell, echo, running, round_number=0, warm_up_seconds=0.1, measure_seconds=2.5, seed="1")
        sample, _ = await asyncio.gather(measuring, stall(echo))
    assert sample.errors == {}
    assert sum(sample.sent["submit"]) == sample.accepted
    # Those due in the first half second of the stall had to wait for at least a tenth.
    assert slow_calls(sample, milliseconds=100) >= 0.5 * RATE * (STALL_SECONDS - 0.1)


async def test_generators_share_the_clients_and_their_counts_add_up() -> None:
    async with open_echo() as echo:
        sample = await one(submits(clients=3), echo, generators=2)
    assert sample.errors == {}
    assert sample.accepted == sum(sample.sent["submit"])
    assert 0 < sample.calls["submit"] <= sample.accepted
    assert Times.decode(sample.times["submit"]).count == sample.calls["submit"]
    assert sample.ends == {"unknown": sample.accepted}
    assert sample.design_cpu_seconds is not None
    assert sample.generator_cpu_seconds > 0


async def test_a_chain_answers_through_all_three() -> None:
    async with open_chain() as chain:
        sample = await one(submits(clients=1), chain)
        assert chain.processes is not None
        _, last, _ = chain.processes()
        os.kill(last, signal.SIGKILL)
        broken = await one(submits(clients=1), chain)
    assert sample.errors == {}
    assert broken.calls["submit"] == 0
    assert broken.errors


async def test_errors_are_counted_by_code_and_nothing_is_tried_again() -> None:
    async with open_echo() as echo:
        sample = await one(
            Cell(workload="x", pattern="mix", loop="closed", clients=1, mix=Mix(submit=1, status=1)), echo
        )
    # The echo knows no GetJobStatus.
    assert set(sample.errors) == {"status UNIMPLEMENTED"}
    assert sample.errors["status UNIMPLEMENTED"] == sum(sample.sent["status"])


async def test_a_server_that_is_away_is_an_error_of_the_run() -> None:
    async with Generators.started(1) as running:
        with pytest.raises(Unavailable, match="no connection"):
            await running.connect(["127.0.0.1:1"])


def plan(profile: Profile, *designs: str) -> Plan:
    return Plan(name="x", command="x", profile_name="x", profile=profile, designs=designs)


def tiny(*workloads: Workload, **given: object) -> Profile:
    values = {"rounds": 1, "warm_up_seconds": 0.1, "measure_seconds": 0.3, "workloads": workloads}
    return Profile(**{**values, **given})  # type: ignore[arg-type]


async def test_other_slots_than_promised_are_refused_before_anything_is_measured(tmp_path: Path) -> None:
    profile = tiny(Workload(name="jobs", pattern="journey", clients=(1,)))
    run = Run(plan=plan(profile, "b"), open=partial(open_design, slots=12), watcher=Quiet(), folder=tmp_path)
    with pytest.raises(UnfairRun, match="12 jobs ran at once"):
        await run.rounds()
    assert list(tmp_path.iterdir()) == []


async def test_what_is_left_over_is_cancelled_on_servers_that_are_not_ours(tmp_path: Path) -> None:
    left = Workload(name="left", pattern="mix", mix=Mix(submit=1), clients=(1,), job_ms=(300,), drain_seconds=0)
    jobs = Workload(name="jobs", pattern="journey", clients=(1,))
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(open_design("b", slots=6))
        opening = partial(open_design, slots=6, addresses={"b": server.targets})
        run = Run(plan=plan(tiny(left, jobs), "b"), open=opening, watcher=Quiet(), folder=tmp_path)
        await run.rounds()
    first, second = samples.read(tmp_path / SAMPLES)
    assert first.ends["unknown"] > 0
    assert first.design_cpu_seconds is None
    assert second.is_accounted_for
    assert second.accepted == second.ends["done"] > 0
