"""One running server of a design, with all that must be started before it and stopped behind it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from holdfast.rpc import limits
from holdfast.rpc.serving import Server

Stop = Callable[[float], Awaitable[object]]
"""Given the seconds that it may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """``stops`` are called one after the other, once the server has let its calls finish."""

    role: str
    address: str
    server: Server
    before: tuple[Stop, ...] = ()
    """Stopped while the server still answers: who calls others and is not called."""
    behind: tuple[Stop, ...] = ()

    async def stop(self, grace_seconds: float = limits.STOP_GRACE_SECONDS) -> None:
        for stop in self.before:
            await stop(grace_seconds)
        await self.server.stop(grace_seconds)
        for stop in self.behind:
            await stop(grace_seconds)
