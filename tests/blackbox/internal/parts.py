"""The services of Design A as processes of their own, and their internal calls in the name of any caller."""

import asyncio
import signal
from collections.abc import Sequence
from typing import Any

import grpc
from google.protobuf.message_factory import GetMessageClass

from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from tests.blackbox.api import LONG_SECONDS, OPTIONS
from tests.blackbox.targets import Running, is_serving
from tests.servers.process import free_port

SERVICES = {
    "gateway": pb.DESCRIPTOR.services_by_name["TaskQueuePublicService"],
    "job": internal.DESCRIPTOR.services_by_name["JobInternalService"],
    "queue": internal.DESCRIPTOR.services_by_name["QueueInternalService"],
    "coordinator": internal.DESCRIPTOR.services_by_name["CoordinatorInternalService"],
    "result": internal.DESCRIPTOR.services_by_name["ResultInternalService"],
}
ROLES = (*SERVICES, "worker")
CALLS = {
    "gateway": ("job", "queue", "result"),
    "coordinator": ("job", "queue", "result"),
    "worker": ("coordinator",),
}
IN_FLIGHT = 200


class Parts:
    """Some roles of Design A, each to be killed and started again at the address it had."""

    def __init__(self, *roles: str) -> None:
        self.roles = roles
        self.addresses = {role: f"127.0.0.1:{free_port()}" for role in ROLES}
        self.running: dict[str, Running] = {}
        self.logs: dict[str, str] = dict.fromkeys(ROLES, "")
        self._channels: dict[str, grpc.Channel] = {}

    def start(self, *roles: str) -> None:
        for role in roles or self.roles:
            self.running[role] = Running(role, *self._command(role))
        for role in roles or self.roles:
            address = self.addresses[role]
            self.running[role].wait_for(lambda address=address: is_serving(address), what=role)

    def kill(self, role: str) -> None:
        """With SIGKILL: nothing is said, nothing is tidied up."""
        running = self.running.pop(role)
        running.end(signal.SIGKILL)
        self.logs[role] += running.log
        running.close()

    def log(self, role: str) -> str:
        """Of all its lives."""
        return self.logs[role] + (self.running[role].log if role in self.running else "")

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()
        for running in self.running.values():
            running.close()

    def call(self, role: str, method: str, request: Any, *, caller: str = "", timeout: float = LONG_SECONDS) -> Any:
        return self._method(role, method)(request, timeout=timeout, metadata=_names(caller))

    def gateway(self, role: str, method: str, **fields: Any) -> Any:
        """As the gateway calls it."""
        return self.call(role, method, _request(role, method, fields), caller="gateway")

    def coordinator(self, role: str, method: str, **fields: Any) -> Any:
        return self.call(role, method, _request(role, method, fields), caller="coordinator")

    def worker(self, role: str, method: str, **fields: Any) -> Any:
        return self.call(role, method, _request(role, method, fields), caller="worker")

    def future(self, role: str, method: str, *, caller: str, timeout: float = LONG_SECONDS, **fields: Any) -> Any:
        request = _request(role, method, fields)
        return self._method(role, method).future(request, timeout=timeout, metadata=_names(caller))

    def together(self, role: str, method: str, times: int, *, caller: str, **fields: Any) -> list[Any]:
        """The same call so many times at once."""
        return self.each(role, method, [fields] * times, caller=caller)

    def each(self, role: str, method: str, given: Sequence[dict[str, Any]], *, caller: str = "gateway") -> list[Any]:
        """All of these calls, many at once; the answers in the order given."""
        return asyncio.run(self._each(role, method, given, caller))

    async def _each(self, role: str, method: str, given: Sequence[dict[str, Any]], caller: str) -> list[Any]:
        answers: list[Any] = []
        async with grpc.aio.insecure_channel(self.addresses[role], options=OPTIONS) as channel:
            call = _method(channel, role, method)
            for start in range(0, len(given), IN_FLIGHT):
                requests = [_request(role, method, fields) for fields in given[start : start + IN_FLIGHT]]
                answers += await asyncio.gather(
                    *(call(request, timeout=LONG_SECONDS, metadata=_names(caller)) for request in requests)
                )
        return answers

    def trailing(self, role: str, method: str, **fields: Any) -> dict[str, Any]:
        """What came behind the answer."""
        request = _request(role, method, fields)
        _, call = self._method(role, method).with_call(request, timeout=LONG_SECONDS, metadata=_names("gateway"))
        return dict(call.trailing_metadata())

    def _method(self, role: str, name: str) -> Any:
        if role not in self._channels:
            self._channels[role] = grpc.insecure_channel(self.addresses[role], options=OPTIONS)
        return _method(self._channels[role], role, name)

    def _command(self, role: str) -> list[str]:
        others = [part for other in CALLS.get(role, ()) for part in (f"--{other}", self.addresses[other])]
        return ["cluster", "serve", role, "--listen", self.addresses[role], *others]


def _method(channel: grpc.Channel | grpc.aio.Channel, role: str, name: str) -> Any:
    method = SERVICES[role].methods_by_name[name]
    return channel.unary_unary(
        f"/{SERVICES[role].full_name}/{name}",
        request_serializer=GetMessageClass(method.input_type).SerializeToString,
        response_deserializer=GetMessageClass(method.output_type).FromString,
    )


def _names(caller: str) -> tuple[tuple[str, str], ...] | None:
    return (("holdfast-caller", caller),) if caller else None


def _request(role: str, method: str, fields: dict[str, Any]) -> Any:
    return GetMessageClass(SERVICES[role].methods_by_name[method].input_type)(**fields)
