"""How much is submitted."""

import json
from dataclasses import asdict, dataclass
from typing import Final

ENOUGH: Final = "enough"
"""The name of a file in the run's folder: once it is there, only slow jobs are submitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    jobs_a_second: float
    """Quick ones, chains and fan-ins."""
    slow_jobs_a_second: float = 20.0
    """To the very end, so that leases are held whenever a fault strikes."""
    slow_seconds: tuple[float, float] = (0.3, 1.5)
    has_second_app: bool = True
    """False where there are too few workers for both."""

    has_keys: bool = True
    """False where a failover may take back what a key was answered with."""

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> "Load":
        fields = json.loads(text)
        return cls(**{**fields, "slow_seconds": tuple(fields["slow_seconds"])})
