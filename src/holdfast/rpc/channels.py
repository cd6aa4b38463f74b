"""Kept channels to other servers, and typed methods on them.

A channel is opened once and kept: it connects when it is first used, pings while it is idle, and when the other side
was away, tries again after 100 ms and then at most every second. A call never waits for that: while the other side is
away it is UNAVAILABLE at once.
"""

from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from holdfast.rpc import limits
from holdfast.rpc.serving import CALLER_KEY, CLIENT

OPTIONS: Final = (
    ("grpc.initial_reconnect_backoff_ms", limits.RECONNECT_INITIAL_MS),
    ("grpc.max_reconnect_backoff_ms", limits.RECONNECT_MAX_MS),
    ("grpc.min_reconnect_backoff_ms", limits.CONNECT_TIMEOUT_MS),  # how long one try to connect may take
    # A container that was made again has a new address under its old name: without this it is asked for every 30 s.
    ("grpc.dns_min_time_between_resolutions_ms", limits.RECONNECT_MAX_MS),
    ("grpc.keepalive_time_ms", limits.KEEPALIVE_INTERVAL_MS),
    ("grpc.keepalive_timeout_ms", limits.KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),  # any number of them
    ("grpc.enable_retries", 0),  # ours are in ``client``, where it is known what may be repeated
    ("grpc.use_local_subchannel_pool", 1),  # a channel is a connection, and shares none
    ("grpc.enable_http_proxy", 0),
)

Metadata = Sequence[tuple[str, str]]
Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message)


def open_channel(target: str) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(target, options=OPTIONS)


class Method(Generic[Request, Answer]):
    """One method of one server: ``answer = await method(request)``."""

    __slots__ = ("_metadata", "_start", "_timeout_seconds")

    def __init__(self, channel: grpc.aio.Channel, method: MethodDescriptor, *, caller: str, timeout_ms: int) -> None:
        assert method.containing_service is not None
        self._start: Any = channel.unary_unary(
            f"/{method.containing_service.full_name}/{method.name}",
            request_serializer=GetMessageClass(method.input_type).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        self._metadata: Metadata = ((CALLER_KEY, caller),)
        self._timeout_seconds = timeout_ms / 1000

    async def __call__(
        self, request: Request, *, timeout_seconds: float | None = None, metadata: Metadata = ()
    ) -> Answer:
        """Raises grpc.aio.AioRpcError. ``timeout_seconds`` shortens the method's deadline and never extends it."""
        answer: Answer = await self.start(request, timeout_seconds=timeout_seconds, metadata=metadata)
        return answer

    def start(
        self, request: Request, *, timeout_seconds: float | None = None, metadata: Metadata = ()
    ) -> "grpc.aio.UnaryUnaryCall[Request, Answer]":
        """The call itself, for whoever wants what comes behind the answer: ``await call.trailing_metadata()``."""
        timeout = self._timeout_seconds
        if timeout_seconds is not None and timeout_seconds < timeout:
            timeout = timeout_seconds
        call: grpc.aio.UnaryUnaryCall[Request, Answer] = self._start(
            request, timeout=timeout, metadata=(*self._metadata, *metadata) if metadata else self._metadata
        )
        return call


class Peer:
    """A server that we call, and who we are to it."""

    def __init__(self, target: str, *, caller: str = CLIENT) -> None:
        self.target = target
        self.caller = caller
        self.channel = open_channel(target)

    def method(
        self, service: ServiceDescriptor, name: str, *, timeout_ms: int = limits.INTERNAL_DEADLINE_MS
    ) -> Method[Any, Any]:
        return Method(self.channel, service.methods_by_name[name], caller=self.caller, timeout_ms=timeout_ms)
