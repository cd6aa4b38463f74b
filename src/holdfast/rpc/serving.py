"""A gRPC server: the one wrapper around every method, and what every server has.

The wrapper parses, asks whether the caller may call this, runs the handler, and turns what it raises into a status
code. It is no interceptor and makes nothing that a call does not need: between gRPC and a handler lie two function
calls and one small object.

SERVING-1. An answer that is not OK is logged once, as one line with the contract's fields; an OK one is not logged.
SERVING-2. A caller that may not call a method is refused before its request is looked at.
SERVING-3. A handler's Refusal keeps its code. An answer of a service behind this one, and an error of the engine, have
    theirs from the tables in ``refusals``. Everything else is INTERNAL: its traceback is logged, and not sent.
SERVING-4. Bytes that are no request are INVALID_ARGUMENT.
SERVING-5. A server that stops says NOT_SERVING first, takes no new calls, and lets those that it has finish within the
    grace.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NoReturn

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from holdfast.core.errors import ConfigError, HoldfastError
from holdfast.rpc import limits
from holdfast.rpc.refusals import Refusal, denied, invalid, of_answer, of_error, shortened

CALLER_KEY: Final = "holdfast-caller"
CLIENT: Final = "client"
"""Who says nothing is one."""

OPTIONS: Final = (
    # A port that another process listens on is an error, and not shared with it.
    ("grpc.so_reuseport", 0),
    # Our own callers ping idle channels (``channels``); by default a server hangs up on those that do.
    ("grpc.http2.min_ping_interval_without_data_ms", limits.KEEPALIVE_MIN_INTERVAL_MS),
    ("grpc.keepalive_permit_without_calls", 1),
)
LEVELS: Final = {
    grpc.StatusCode.INTERNAL: logging.ERROR,
    grpc.StatusCode.UNAVAILABLE: logging.WARNING,
    grpc.StatusCode.RESOURCE_EXHAUSTED: logging.WARNING,
}
"""Else it is the caller who has to do something."""

if TYPE_CHECKING:  # generic for type checkers only
    Context = grpc.aio.ServicerContext[Any, Any]
    MethodHandler = grpc.RpcMethodHandler[Any, Any]


class Call:
    """One call that is being served: who asks, and how long it waits.

    When nobody waits any more, the handler's task is cancelled: that is how it gets to know.
    """

    __slots__ = ("_context",)

    def __init__(self, context: "Context") -> None:
        self._context = context

    @property
    def caller(self) -> str:
        return self.metadata(CALLER_KEY) or CLIENT

    def metadata(self, key: str) -> str | None:
        """What the caller sent along under this key, which is in lower case."""
        for name, value in self._context.invocation_metadata() or ():
            if name == key:
                return value if isinstance(value, str) else value.decode(errors="replace")
        return None

    def seconds_left(self) -> float | None:
        """Until the caller's deadline; None where it has none."""
        return self._context.time_remaining()

    def set_trailing(self, key: str, value: str) -> None:
        """Send this along behind the answer, which it is no part of. One key a call."""
        self._context.set_trailing_metadata(((key, value),))


Handler = Callable[[Any, Call], Awaitable[Message]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service of a contract, and who serves each of its methods. ``allowed``: method → callers; None: anybody."""

    descriptor: ServiceDescriptor
    handlers: Mapping[str, Handler]
    allowed: Mapping[str, frozenset[str]] | None = None

    def __post_init__(self) -> None:
        self._require_same(self.handlers, "have no handler")
        if self.allowed is not None:
            self._require_same(self.allowed, "are nobody's to call")

    def _require_same(self, given: Mapping[str, object], problem: str) -> None:
        wrong = sorted(set(self.descriptor.methods_by_name) ^ set(given))
        if wrong:
            raise ValueError(f"{self.descriptor.full_name}: these {problem}, or are not methods: {', '.join(wrong)}")


class Server:
    """Services at one address, with health checking and reflection.

    ::

        server = Server("gateway", [Service(descriptor=…, handlers={"SubmitJob": submit_job, …})], log=LOG)
        address = await server.start("127.0.0.1:0")
        …
        await server.stop(grace_seconds=5)

    Hold on to it: gRPC ends a server that nobody refers to any more.
    """

    def __init__(self, name: str, services: Sequence[Service], *, log: logging.Logger) -> None:
        self.name = name
        self._services = tuple(services)
        self._log = log
        self._server: grpc.aio.Server | None = None
        self._health: Any = None

    async def start(self, listen: str) -> str:
        """Listen at HOST:PORT, and say where that is: port 0 means any that is free."""
        server = grpc.aio.server(options=OPTIONS)
        self._add_handlers(server)
        try:
            port = server.add_insecure_port(listen)
        except RuntimeError as error:
            raise ConfigError(
                f"cannot listen on {listen}: the port is taken, or the address is not this machine's; give another one"
            ) from error
        await server.start()
        self._server = server
        await self.set_serving(True)
        return bound_address(listen, port)

    async def set_serving(self, is_serving: bool) -> None:
        """What a health check is told."""
        answer = health_pb2.HealthCheckResponse
        status = answer.SERVING if is_serving else answer.NOT_SERVING
        for name in ("", *(service.descriptor.full_name for service in self._services)):
            await self._health.set(name, status)

    async def stop(self, grace_seconds: float = limits.STOP_GRACE_SECONDS) -> None:
        """Once stopped it stays so. A second call changes nothing, or shortens the grace of the first."""
        if self._server is None:
            return
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_seconds)

    async def wait_stopped(self) -> None:
        if self._server is not None:
            await self._server.wait_for_termination()

    def _add_handlers(self, server: grpc.aio.Server) -> None:
        # The first one that knows a method is asked no further: ours come first.
        server.add_generic_rpc_handlers((_Methods(self._services, self._log),))
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        names = [service.descriptor.full_name for service in self._services]
        reflection.enable_server_reflection((*names, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        server.add_generic_rpc_handlers((_Unknown(self._log),))


def bound_address(listen: str, port: int) -> str:
    host, separator, asked = listen.rpartition(":")
    # unix:/path has no port.
    return f"{host}:{port}" if separator and asked.isdecimal() else listen


class _Methods(grpc.GenericRpcHandler):
    """Every method of every service in one table."""

    def __init__(self, services: Sequence[Service], log: logging.Logger) -> None:
        self._handlers: dict[str, MethodHandler] = {
            f"/{service.descriptor.full_name}/{name}": grpc.unary_unary_rpc_method_handler(
                wrapped(service.descriptor.methods_by_name[name], handler, allowed=_allowed(service, name), log=log)
            )
            for service in services
            for name, handler in service.handlers.items()
        }

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "MethodHandler | None":
        return self._handlers.get(handler_call_details.method)


class _Unknown(grpc.GenericRpcHandler):
    """Asked last, for what nobody knows. gRPC itself answers with UNIMPLEMENTED."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> None:
        method = str(handler_call_details.method)
        self._log.info(
            "no such method",
            extra={"event": "call_refused", "method": method, "grpc_code": grpc.StatusCode.UNIMPLEMENTED.name},
        )


def _allowed(service: Service, method: str) -> frozenset[str] | None:
    return None if service.allowed is None else service.allowed[method]


def wrapped(
    method: MethodDescriptor, handler: Handler, *, allowed: frozenset[str] | None, log: logging.Logger
) -> Callable[[bytes, "Context"], Awaitable[bytes]]:
    parse: Callable[[bytes], Message] = GetMessageClass(method.input_type).FromString
    serialize: Callable[[Message], bytes] = GetMessageClass(method.output_type).SerializeToString
    speaker = _Speaker(method, log)

    async def serve(data: bytes, context: "Context") -> bytes:
        began = monotonic()
        call = Call(context)
        request = None
        try:
            if allowed is not None and call.caller not in allowed:
                raise denied(f"{call.caller!r} may not call {method.name}; that is for {', '.join(sorted(allowed))}")
            request = parse(data)
            return serialize(await handler(request, call))
        except asyncio.CancelledError:
            speaker.say_cancelled(call, request, began)
            raise
        except Exception as error:
            await speaker.refuse(error, _Served(call=call, context=context, request=request, began=began))

    return serve


@dataclass(frozen=True, slots=True, kw_only=True)
class _Served:
    call: Call
    context: "Context"
    request: Message | None
    began: float


@dataclass(frozen=True, slots=True)
class _Speaker:
    """Says no, to the caller and to the log."""

    method: MethodDescriptor
    log: logging.Logger

    async def refuse(self, error: Exception, served: _Served) -> NoReturn:
        refusal = refusal_of(error)
        is_unexpected = not isinstance(error, Refusal | HoldfastError | grpc.aio.AioRpcError | DecodeError)
        self._say(refusal, served.call, served.request, served.began, error if is_unexpected else None)
        await served.context.abort(refusal.code, refusal.message)

    def say_cancelled(self, call: Call, request: Message | None, began: float) -> None:
        """By its caller, by the deadline, or because this server stops."""
        left = call.seconds_left()
        if left is not None and left <= 0:
            refusal = Refusal(grpc.StatusCode.DEADLINE_EXCEEDED, "the caller's deadline has passed")
        else:
            refusal = Refusal(grpc.StatusCode.CANCELLED, "nobody waits for the answer any more")
        self._say(refusal, call, request, began, None)

    def _say(
        self, refusal: Refusal, call: Call, request: Message | None, began: float, error: Exception | None
    ) -> None:
        fields: dict[str, object] = {
            "event": "call_refused",
            "method": self.method.name,
            "grpc_code": refusal.code.name,
            "caller": call.caller,
            "latency_ms": round((monotonic() - began) * 1000, 3),
        }
        if job_id := refusal.job_id or getattr(request, "job_id", ""):
            fields["job_id"] = shortened(job_id)
        if worker_id := getattr(request, "worker_id", ""):
            fields["worker_id"] = shortened(worker_id)
        level = LEVELS.get(refusal.code, logging.INFO)
        self.log.log(level, "%s", refusal.message, extra=fields, exc_info=error)


def refusal_of(error: Exception) -> Refusal:
    match error:
        case Refusal():
            return error
        case grpc.aio.AioRpcError():
            return of_answer(error)
        case HoldfastError():
            return of_error(error)
        case DecodeError():
            return invalid("the bytes of the request are not a message of this method; is the client's contract v1?")
        case _:
            return Refusal(grpc.StatusCode.INTERNAL, "an unexpected failure of the server; its log says more")


def anomaly(log: logging.Logger, message: str, *, job_id: str, method: str, **fields: object) -> None:
    """Two parts of the state that should agree do not: one line for whoever looks into it."""
    log.error("%s", message, extra={"event": "consistency_anomaly", "job_id": job_id, "method": method, **fields})
