"""A network that can be made bad: a TCP proxy between one worker and the database.

PROXY-1. ``slow``: every piece of data waits, in both directions.
PROXY-2. ``stall``: nothing passes, nothing is closed; what was held back passes afterwards. ``hold_answers``: the same
    for what the server says; it hears everything.
PROXY-3. ``reset``: every connection ends in a reset, in the middle of whatever it was saying.
PROXY-4. ``cut``: the connections that are open become half open, for good: what is sent into them is swallowed, and
    neither side is told. New ones work.
PROXY-5. ``lose_claim``: the next claim reaches the server and its answer nobody: the client's side of that connection
    is reset, and the server carries on. Or the claim reaches it later, when it is let go.
"""

import asyncio
import contextlib
import re
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

CHUNK_BYTES: Final = 65536
RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER on, zero seconds: closing sends a reset."""


CLAIM: Final = b"-- claim.lease\n"
"""How the statement begins, as it is sent."""
PARSED: Final = re.compile(rb"P.{4}([^\0]*)\0" + re.escape(CLAIM), re.DOTALL)
"""PostgreSQL's message that gives a statement its name; it is run by that name from then on."""
CARRIES_ON_SECONDS: Final = 1.0
"""How long the server's side of a lost connection stays open, so that it can do what it was asked."""


@dataclass(slots=True)
class ClaimTrap:
    """Waits for a claim. ``on_claim`` is called in the moment it is lost."""

    on_claim: Callable[[], None]
    delivered: asyncio.Event
    """Set: it reaches the server at once. Otherwise it does when this is set."""
    caught: asyncio.Event = field(default_factory=asyncio.Event)


class Connection:
    def __init__(self, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self._writers = (near, far)
        self.is_swallowed = False
        self.claim: bytes | None = None
        """The name of the statement that claims, once it has one here."""

    def note_claim(self, data: bytes) -> bool:
        """Whether this runs it."""
        found = PARSED.search(data) if CLAIM in data else None
        if found is not None:
            self.claim = found[1]
        return self.claim is not None and b"\0" + self.claim + b"\0" in data and b"B" in data and found is None

    def reset(self) -> None:
        for writer in self._writers:
            _reset(writer)

    def lose(self) -> None:
        """For the client only."""
        self.is_swallowed = True
        _reset(self._writers[0])

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    raw: socket.socket | None = writer.get_extra_info("socket")
    if raw is not None:
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


class Link:
    """One client's way to the server."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._server_port = host, port
        self._server: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._answers = asyncio.Event()
        self._answers.set()
        self._delay_seconds = 0.0
        self._trap: ClaimTrap | None = None

    @property
    def connections(self) -> int:
        return len(self._connections)

    @property
    def port(self) -> int:
        assert self._server is not None, "the link is not open"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def close(self) -> None:
        self.resume()
        self.release_answers()
        self.reset()
        if self._server is not None:
            self._server.close()

    # faults

    def slow(self, delay_seconds: float) -> None:
        """0 heals it."""
        self._delay_seconds = delay_seconds

    def stall(self) -> None:
        self._flows.clear()

    def resume(self) -> None:
        self._flows.set()

    def hold_answers(self) -> None:
        self._answers.clear()

    def release_answers(self) -> None:
        self._answers.set()

    def reset(self) -> int:
        """Returns how many connections were ended."""
        connections = list(self._connections)
        for connection in connections:
            connection.reset()
        return len(connections)

    def cut(self) -> int:
        """Returns how many connections are half open now."""
        for connection in self._connections:
            connection.is_swallowed = True
        return len(self._connections)

    def lose_claim(self, trap: ClaimTrap | None) -> None:
        """The next one; None: no more."""
        self._trap = trap

    # data

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._flows.wait()
        try:
            far_reader, far_writer = await asyncio.open_connection(self._host, self._server_port)
        except OSError:
            writer.transport.abort()
            return
        connection = Connection(writer, far_writer)
        self._connections.add(connection)
        there = asyncio.create_task(self._pump_there(reader, far_writer, connection))
        back = asyncio.create_task(self._pump(far_reader, writer, connection, self._answers))
        try:
            await self._until_over(there, back, connection)
        finally:
            self._connections.discard(connection)
            there.cancel()
            back.cancel()
            connection.close()

    async def _until_over(self, there: asyncio.Task[None], back: asyncio.Task[None], connection: Connection) -> None:
        await asyncio.wait([there, back], return_when=asyncio.FIRST_COMPLETED)
        if connection.is_swallowed and not there.done():
            # The server hung up, and the client must not hear of it.
            await there

    async def _pump_there(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: Connection
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                if connection.note_claim(data) and self._trap is not None:
                    trap, self._trap = self._trap, None
                    await self._lose(data, writer, connection, trap)
                    return
                await self._pass(data, writer, connection, self._flows)

    async def _lose(self, data: bytes, writer: asyncio.StreamWriter, connection: Connection, trap: ClaimTrap) -> None:
        is_at_once = trap.delivered.is_set()
        if is_at_once:
            writer.write(data)
            await writer.drain()
        connection.lose()
        trap.on_claim()
        trap.caught.set()
        if not is_at_once:
            await trap.delivered.wait()
            writer.write(data)
            await writer.drain()
        await asyncio.sleep(CARRIES_ON_SECONDS)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: Connection, gate: asyncio.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                await self._pass(data, writer, connection, gate)

    async def _pass(
        self, data: bytes, writer: asyncio.StreamWriter, connection: Connection, gate: asyncio.Event
    ) -> None:
        if self._delay_seconds:
            await asyncio.sleep(self._delay_seconds)
        await gate.wait()
        await self._flows.wait()
        if not connection.is_swallowed:
            writer.write(data)
            await writer.drain()
