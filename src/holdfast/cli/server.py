"""``holdfast server``: take jobs over the network, and run them."""

import argparse
import asyncio
import logging
import os
from typing import TYPE_CHECKING, Final

from holdfast.cli import values
from holdfast.cli.command import Commands, add_command
from holdfast.cli.database import add_url, checked, patiently, url_of
from holdfast.cli.exits import Exit
from holdfast.cli.signals import stop_signals
from holdfast.core.errors import Unavailable, UsageError
from holdfast.rpc.installed import require_grpc
from holdfast.rpc.limits import TOTAL_WORKER_SLOTS
from holdfast.telemetry import configure
from holdfast.telemetry.unblocked import unblock_output
from holdfast.wiring import without_password

if TYPE_CHECKING:
    from holdfast.rpc.durable import DurableServer

EXAMPLES: Final = """
holdfast server --grpc                                       at 127.0.0.1:50051, on ./holdfast.db
holdfast server --grpc 127.0.0.1:6000 --slots 12
holdfast server --grpc 0.0.0.0:50051 --url postgresql://db/app
holdfast server --grpc 127.0.0.1:0 --log json                any free port; the log says which
"""
DESCRIPTION: Final = """Serve the gRPC API taskqueue.v1 on a database: jobs that were accepted survive every crash, and
several servers may share them. SIGTERM or Ctrl-C: no new calls, those that are being served and jobs that run may end,
what is left is handed back. A second time: stop at once."""
DEFAULT_LISTEN: Final = "127.0.0.1:50051"
PATIENCE_SECONDS: Final = 60.0
LOG_FORMS: Final = ("json", "text")
LOG: Final = logging.getLogger("holdfast.cli")


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "server",
        help="take jobs over gRPC, and run them",
        description=DESCRIPTION,
        examples=EXAMPLES,
        run=run,
    )
    parser.add_argument(
        "--grpc",
        type=listen,
        nargs="?",
        const=DEFAULT_LISTEN,
        metavar="HOST:PORT",
        help=f"serve gRPC there; default: {DEFAULT_LISTEN}",
    )
    parser.add_argument(
        "--slots",
        type=slots,
        default=TOTAL_WORKER_SLOTS,
        metavar="N",
        help=f"jobs at a time; 0: take jobs and leave them to other servers; default: {TOTAL_WORKER_SLOTS}",
    )
    parser.add_argument("--log", choices=LOG_FORMS, default=LOG_FORMS[0], help=f"default: {LOG_FORMS[0]}")
    add_url(parser, patience_seconds=PATIENCE_SECONDS)


def listen(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not host or not colon or not port.isdecimal() or int(port) > 65535 or not _is_host(host):
        raise values.Refused(
            f"{text!r} is not an address; write host:port, for example {DEFAULT_LISTEN} or [::1]:50051"
        )
    return text


def _is_host(host: str) -> bool:
    return ":" not in host or (host.startswith("[") and host.endswith("]"))


def slots(text: str) -> int:
    return 0 if text == "0" else values.positive(text)


def run(arguments: argparse.Namespace) -> int:
    if arguments.grpc is None:
        raise UsageError(f"what to serve? write holdfast server --grpc, or --grpc {DEFAULT_LISTEN}")
    require_grpc("holdfast server --grpc")
    # Its own words about a port that is taken would stand beside ours.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    unblock_output()
    configure(service="durable", is_text=arguments.log == "text")
    # Not uvloop's: grpc.aio has a poller of its own, made for asyncio's.
    return asyncio.run(_serve(arguments))


async def _serve(arguments: argparse.Namespace) -> int:
    from holdfast.rpc.durable import DurableServer

    signals = Signals()
    with checked(url_of(arguments)) as url:
        server = DurableServer(url, slots=arguments.slots)
    try:
        await patiently(server.engine.open, url=url, timeout_seconds=arguments.connect_timeout, say=LOG.warning)
    except asyncio.CancelledError:
        return signals.code
    signals.server = server
    try:
        address = await server.start(arguments.grpc)
        LOG.info(
            "gRPC at %s, %d slots, %s",
            address,
            arguments.slots,
            without_password(url),
            extra={"event": "server_started", "address": address},
        )
        await _wait(server, signals)
    finally:
        await server.stop()
    return signals.code


async def _wait(server: "DurableServer", signals: "Signals") -> None:
    """Until a signal."""
    ended = asyncio.ensure_future(server.wait_stopped())
    asked = asyncio.ensure_future(signals.asked.wait())
    try:
        await asyncio.wait((ended, asked), return_when=asyncio.FIRST_COMPLETED)
    finally:
        ended.cancel()
        asked.cancel()
    if not signals.asked.is_set():
        raise Unavailable("the server's worker has ended by itself; the log says why")


class Signals:
    """The first one ends the wait for a database, or lets the server finish; the second stops it at once."""

    def __init__(self) -> None:
        self.code = Exit.DONE
        self.asked = asyncio.Event()
        self.server: DurableServer | None = None
        self._count = 0
        self._opening = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for number, code in stop_signals().items():
            loop.add_signal_handler(number, self._received, code)

    def _received(self, code: Exit) -> None:
        self._count += 1
        self.code = code
        if self.server is None:
            assert self._opening is not None
            self._opening.cancel()
        elif self._count == 1:
            LOG.info("stopping: what runs may end; once more stops at once", extra={"event": "server_stopping"})
            self.asked.set()
        elif self._count == 2:
            LOG.warning("stopping at once", extra={"event": "server_stopping"})
            self.server.hurry()
        else:
            os._exit(Exit.INTERRUPTED)
