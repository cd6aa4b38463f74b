"""``holdfast cluster``: six real processes, from their start to a clean end, and one by itself."""

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from holdfast.cli.cluster_members import plan, targets
from holdfast.core.errors import UsageError
from holdfast.designs.services import design_a, design_b, settings
from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from holdfast.rpc.generated.taskqueue_public_pb2_grpc import TaskQueuePublicServiceStub
from holdfast.rpc.ports import free_ports
from tests.integration.cli.programs import (
    COMMAND,
    DONE,
    INTERRUPTED,
    LONG_SECONDS,
    NOT_DONE,
    WRONG,
    Program,
    environment,
    refused,
    run,
    run_json,
)

DESIGN_A = ["gateway", "job", "queue", "coordinator", "worker", "result"]
DESIGN_B = [f"node-{number}" for number in range(6)]


class Up(Program):
    """``cluster up --json`` on free ports; ``said`` is its one object."""

    def __init__(self, design: str, *more: str) -> None:
        super().__init__("cluster", "up", "--design", design, "--base-port", "0", "--json", *more)
        self.wait_for('"processes"')
        (line,) = [line for line in self.text.splitlines() if line.startswith('{"design"')]
        self.said: dict[str, Any] = json.loads(line)
        self.pids = {one["name"]: one["pid"] for one in self.said["processes"]}

    def wait_until_gone(self) -> None:
        deadline = time.monotonic() + LONG_SECONDS
        while any(is_there(pid) for pid in self.pids.values()):
            assert time.monotonic() < deadline, f"still there: {self.pids}"
            time.sleep(0.05)


def is_there(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"  # its parent, who would collect it, may be gone


def run_a_job(address: str) -> int:
    with grpc.insecure_channel(address) as channel:
        stub = TaskQueuePublicServiceStub(channel)
        job_id = stub.SubmitJob(pb.SubmitJobRequest(spec=pb.JobSpec(job_type="t")), timeout=10).job_id
        deadline = time.monotonic() + LONG_SECONDS
        while True:
            status = stub.GetJobStatus(pb.GetJobStatusRequest(job_id=job_id), timeout=10).status
            if status not in (pb.QUEUED, pb.RUNNING):
                return status
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.mark.parametrize(
    ("design", "names", "slots"),
    [("a", DESIGN_A, {"worker": 12}), ("b", DESIGN_B, dict.fromkeys(DESIGN_B, 2))],
)
def test_a_design_comes_up_takes_jobs_and_stops_cleanly(design: str, names: list[str], slots: dict[str, int]) -> None:
    with Up(design, "--slots", "12") as up:
        assert list(up.pids) == names
        assert {one["name"]: one["slots"] for one in up.said["processes"] if one["slots"]} == slots
        assert (up.said["design"], up.said["slots"], len(up.said["targets"])) == (design, 12, 1 if design == "a" else 6)
        assert [run_a_job(target) for target in up.said["targets"]] == [pb.DONE] * len(up.said["targets"])
        assert all(is_there(pid) for pid in up.pids.values())
        up.signal(signal.SIGTERM)
        assert up.exit_code() == DONE
        up.wait_until_gone()


def test_people_get_a_table_and_are_told_how_to_stop() -> None:
    with Program("cluster", "up", "--design", "a", "--base-port", "0") as up:
        up.wait_for("Ctrl-C stops it")
        rows = [line.split() for line in up.text.splitlines() if re.match(r"(PROCESS|\w+ +127\.0\.0\.1:\d+) ", line)]
        assert [row[0].lower() for row in rows] == ["process", *DESIGN_A]
        assert [row[3] for row in rows] == ["SLOTS", "–", "–", "–", "–", "6", "–"]
        up.signal(signal.SIGINT)
        assert up.exit_code() == INTERRUPTED


def test_a_process_that_dies_is_reported_and_the_others_go_on() -> None:
    with Up("b") as up:
        os.kill(up.pids["node-3"], signal.SIGKILL)
        up.wait_for(f"node-3 (process {up.pids['node-3']}, {up.said['targets'][3]}) was killed by SIGKILL")
        assert run_a_job(up.said["targets"][0]) == pb.DONE
        up.signal(signal.SIGTERM)
        assert up.exit_code() == NOT_DONE
        up.wait_until_gone()


def test_when_none_is_left_it_ends() -> None:
    with Up("b") as up:
        for pid in up.pids.values():
            os.kill(pid, signal.SIGKILL)
        assert up.exit_code() == NOT_DONE
        assert "no process is left" in up.text


def test_its_processes_end_when_it_is_killed() -> None:
    with Up("b") as up:
        up.signal(signal.SIGKILL)
        up.wait_until_gone()


def test_a_second_signal_stops_at_once() -> None:
    with Up("b") as up:
        os.kill(up.pids["node-0"], signal.SIGSTOP)  # it would never stop by itself
        up.signal(signal.SIGINT)
        deadline = time.monotonic() + LONG_SECONDS
        while is_there(up.pids["node-1"]):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        up.signal(signal.SIGINT)
        assert up.exit_code() == INTERRUPTED
        up.wait_until_gone()


def test_a_port_that_is_taken_is_said_so_and_nothing_is_left_running(taken: int) -> None:
    with Program("cluster", "up", "--design", "b", "--base-port", str(taken)) as up:
        assert up.exit_code() == WRONG
        assert f"cannot listen on 127.0.0.1:{taken}" in up.text
        assert "Traceback" not in up.text


def test_slots_that_nodes_cannot_share_are_refused() -> None:
    assert "6, 12, 18" in refused("cluster", "up", "--design", "b", "--slots", "7")
    assert "6, 12, 18" in refused("cluster", "up", "--design", "b", "--slots", "5")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("up",), "--design"),
        (("up", "--design", "c"), "'a', 'b'"),
        (("up", "--design", "a", "--base-port", "65534"), "65530"),
        (("up", "--design", "a", "--base-port", "x"), "first port"),
        (("up", "--design", "a", "--slots", "0"), "from 1"),
        (("serve", "cook"), "gateway"),
        (("serve", "gateway"), "HOLDFAST_JOB"),
        (("serve", "worker", "--coordinator", "127.0.0.1:1", "--slots", "1000"), "128"),
        (("serve", "node", "--nodes", "127.0.0.1:1,127.0.0.1:2", "--index", "2"), "counted from 0"),
        (("serve", "node", "--nodes", "h:1,h:2,h:3,h:4"), "evenly"),
        ((), "up, serve or check"),
        (("check",), "HOLDFAST_LISTEN"),
    ],
)
def test_a_wrong_command_is_one_line_that_tells_the_remedy(arguments: tuple[str, ...], said: str) -> None:
    assert said in refused("cluster", *arguments)


def test_one_role_serves_by_itself_from_the_environment_and_says_where() -> None:
    with Program("cluster", "serve", "queue", HOLDFAST_LISTEN="127.0.0.1:0") as queue:
        queue.wait_for('"ready"')
        (line,) = [line for line in queue.text.splitlines() if '"ready"' in line]
        host, _, port = json.loads(line)["address"].rpartition(":")
        assert run_json("cluster", "check", f"{host}:{port}") == {f"{host}:{port}": True}
        own = run("cluster", "check", HOLDFAST_LISTEN=f"0.0.0.0:{port}")
        assert (own.returncode, own.stdout) == (DONE, f"127.0.0.1:{port} serves\n")
        queue.signal(signal.SIGINT)
        assert queue.exit_code() == DONE


def test_a_server_that_does_not_serve_is_said_so(taken: int) -> None:
    address = f"127.0.0.1:{taken}"
    assert run_json("cluster", "check", address, code=NOT_DONE) == {address: False}


def test_a_role_on_a_port_that_is_taken_says_so(taken: int) -> None:
    done = subprocess.run(
        [*COMMAND, "cluster", "serve", "job", "--listen", f"127.0.0.1:{taken}"],
        capture_output=True,
        text=True,
        timeout=LONG_SECONDS,
        env=environment(),
        check=False,
    )
    assert done.returncode == WRONG
    assert f"cannot listen on 127.0.0.1:{taken}" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_roles_of_the_settings_are_those_of_the_designs() -> None:
    assert (*design_a.ROLES, design_b.ROLE) == settings.ROLES
    ports = list(range(7000, 7006))
    services, nodes = plan("a", ports=ports, slots=6), plan("b", ports=ports, slots=6)
    assert {one.role for one in (*services, *nodes)} == set(settings.ROLES)
    assert targets(services) == ["127.0.0.1:7000"]
    assert targets(nodes) == [f"127.0.0.1:{port}" for port in ports]
    for one in services:
        named = {argument.removeprefix("--") for argument in one.arguments[::2]} - {"slots"}
        assert named == set(settings.NEEDS[one.role])


def test_slots_are_shared_as_locked() -> None:
    ports = free_ports(6)
    assert [one.slots for one in plan("a", ports=ports, slots=6)] == [0, 0, 0, 0, 6, 0]
    assert [one.slots for one in plan("b", ports=ports, slots=6)] == [1] * 6
    with pytest.raises(UsageError, match="shared evenly"):
        plan("b", ports=ports, slots=4)
