"""A role as a process of its own: its ready line, its end, and what is wrong with its settings."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from holdfast.rpc import limits
from holdfast.rpc.generated import taskqueue_public_pb2 as public
from holdfast.rpc.generated import taskqueue_public_pb2_grpc as public_grpc

START = (sys.executable, "-m", "holdfast.designs.services.run")
Processes = list[subprocess.Popen[str]]


@pytest.fixture
def processes() -> Iterator[Processes]:
    started: Processes = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def start(processes: Processes, *arguments: str) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen([*START, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    processes.append(process)
    assert process.stdout is not None
    line = json.loads(process.stdout.readline())
    assert (line["event"], line["role"]) == ("ready", arguments[0])
    return process, line["address"]


def is_serving(address: str) -> bool:
    with grpc.insecure_channel(address) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["term", "int"])
@pytest.mark.parametrize(
    "role",
    [
        ["job"],
        ["gateway", "--job", "127.0.0.1:1", "--queue", "127.0.0.1:1", "--result", "127.0.0.1:1"],
        ["worker", "--coordinator", "127.0.0.1:1"],
        ["node", "--nodes", "127.0.0.1:1"],
    ],
    ids=lambda role: role[0],
)
def test_a_role_says_that_it_is_ready_serves_and_stops_on_a_signal(
    processes: Processes, role: list[str], number: signal.Signals
) -> None:
    process, address = start(processes, *role)
    assert is_serving(address)
    process.send_signal(number)
    out, log = process.communicate(timeout=30)
    assert process.returncode == 0
    assert out == ""
    assert "Traceback" not in log


def test_a_read_behind_which_a_service_hangs_is_unavailable(processes: Processes) -> None:
    """GATEWAY-5."""
    job, job_address = start(processes, "job")
    nobody = "127.0.0.1:1"
    _, address = start(processes, "gateway", "--job", job_address, "--queue", nobody, "--result", nobody)
    job_id = str(uuid4())
    with grpc.insecure_channel(address) as channel:
        stub = public_grpc.TaskQueuePublicServiceStub(channel)
        reads = [
            (stub.GetJobStatus, public.GetJobStatusRequest(job_id=job_id)),
            (stub.GetJobResult, public.GetJobResultRequest(job_id=job_id)),
            (stub.ListJobs, public.ListJobsRequest()),
        ]
        assert code_of(*reads[0]) == "NOT_FOUND"
        job.send_signal(signal.SIGSTOP)
        assert [code_of(*read) for read in reads] == ["UNAVAILABLE"] * len(reads)
        job.send_signal(signal.SIGCONT)


def code_of(method: Any, request: Any) -> str:
    with pytest.raises(grpc.RpcError) as caught:
        method(request, timeout=limits.GET_JOB_STATUS_DEADLINE_MS / 1000)
    return str(caught.value.code().name)


def test_an_address_that_is_taken_is_said_so(processes: Processes) -> None:
    _, address = start(processes, "job")
    second = subprocess.run([*START, "queue", "--listen", address], capture_output=True, text=True, timeout=60)
    assert second.returncode == 2
    assert f"cannot listen on {address}" in second.stderr
    assert "Traceback" not in second.stderr


def test_settings_that_will_not_do_are_said_so() -> None:
    done = subprocess.run([*START, "worker"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "worker needs --coordinator" in done.stderr
