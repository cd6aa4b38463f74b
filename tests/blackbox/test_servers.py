"""What a server offers beside the API: health and reflection, by which tools find their way."""

from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from tests.blackbox.api import Api, refusal
from tests.blackbox.targets import Target

PUBLIC = "taskqueue.v1.TaskQueuePublicService"
HEALTH = "grpc.health.v1.Health"


@pytest.fixture
def channels(target: Target) -> Any:
    opened = [grpc.insecure_channel(address) for address in target.addresses]
    yield opened
    for channel in opened:
        channel.close()


def reflect(channel: grpc.Channel, **asked: Any) -> Any:
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    (answer,) = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(**asked)]), timeout=10)
    return answer


@pytest.mark.parametrize("service", ["", PUBLIC])
def test_every_server_says_that_it_serves(channels: list[grpc.Channel], service: str) -> None:
    for channel in channels:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=10)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_the_health_of_what_is_not_there_is_not_found(channels: list[grpc.Channel]) -> None:
    for channel in channels:
        stub = health_pb2_grpc.HealthStub(channel)
        error = refusal(lambda stub=stub: stub.Check(health_pb2.HealthCheckRequest(service="nobody"), timeout=10))  # type: ignore[misc]
        assert error.code() is grpc.StatusCode.NOT_FOUND


def test_every_server_tells_which_services_it_has(channels: list[grpc.Channel]) -> None:
    for channel in channels:
        names = {one.name for one in reflect(channel, list_services="").list_services_response.service}
        assert {PUBLIC, HEALTH} <= names


def test_reflection_gives_the_frozen_contract(channels: list[grpc.Channel]) -> None:
    for channel in channels:
        answer = reflect(channel, file_containing_symbol=PUBLIC).file_descriptor_response
        files = [FileDescriptorProto.FromString(data) for data in answer.file_descriptor_proto]
        frozen = FileDescriptorProto()
        pb.DESCRIPTOR.CopyToProto(frozen)
        assert frozen in files


def test_a_caller_that_names_itself_a_client_is_one(api: Api) -> None:
    request = pb.SubmitJobRequest(spec=pb.JobSpec(job_type="named"))
    answer = api.stub.SubmitJob(request, timeout=10, metadata=(("holdfast-caller", "client"),))
    assert answer.initial_status == pb.QUEUED


@pytest.mark.parametrize("caller", ["worker", "queue", "stranger"])
def test_a_caller_that_is_not_allowed_the_api_is_refused(api: Api, target: Target, caller: str) -> None:
    request = pb.SubmitJobRequest(spec=pb.JobSpec(job_type="refused"))
    error = refusal(lambda: api.stub.SubmitJob(request, timeout=10, metadata=(("holdfast-caller", caller),)))
    assert error.code() is grpc.StatusCode.PERMISSION_DENIED
    assert caller in (error.details() or "")
