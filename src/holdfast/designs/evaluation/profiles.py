"""What is to be measured: profiles, read from a TOML file.

A profile is a list of workloads, and a workload a list of cells: one for every number of clients (or rate) and job
duration. A cell is what is measured in one go. Whatever makes no sense is refused with the place and the remedy.
"""

import tomllib
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from holdfast.core.errors import ConfigError
from holdfast.designs.services.settings import MAX_SLOTS
from holdfast.rpc.limits import MAX_OUTPUT_BYTES, TOTAL_WORKER_SLOTS

SHIPPED: Final = Path(__file__).with_name("profiles.toml")
MAX_CLIENTS: Final = 512
"""Each has its own connection to every target: a process may have so many files open and some more."""
OPEN_CONNECTIONS: Final = 16
"""To each target in an open loop, which has no clients: arrivals take them in turn."""
MAX_RATE: Final = 10_000.0
MAX_JOB_MS: Final = 60_000
MAX_SECONDS: Final = 600.0
MAX_ROUNDS: Final = 100
MAX_GENERATORS: Final = 16

Name = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=40)]
Clients = Annotated[int, Meta(ge=1, le=MAX_CLIENTS)]
Rate = Annotated[float, Meta(gt=0, le=MAX_RATE)]
Milliseconds = Annotated[int, Meta(ge=0, le=MAX_JOB_MS)]
Weight = Annotated[float, Meta(ge=0, le=1e6)]
Seconds = Annotated[float, Meta(ge=0, le=MAX_SECONDS)]
MeasuredSeconds = Annotated[float, Meta(gt=0, le=MAX_SECONDS)]


class Mix(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shares of calls; only their proportions matter. ListJobs is none of them: it is local in Design B."""

    submit: Weight = 0
    status: Weight = 0
    result: Weight = 0


class Cell(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One workload with one number of clients (or one rate) and one job duration."""

    workload: str
    pattern: Literal["journey", "mix"]
    loop: Literal["closed", "open"]
    clients: int = 0
    rate: float = 0
    job_ms: int = 0
    payload_bytes: int = 0
    mix: Mix = Mix()
    drain_seconds: float = 0

    @property
    def key(self) -> str:
        load = f"c{self.clients}" if self.loop == "closed" else f"r{self.rate:g}"
        return f"{self.workload}-{load}-j{self.job_ms}"

    @property
    def connections(self) -> int:
        """To each target, whatever the design."""
        return self.clients if self.loop == "closed" else OPEN_CONNECTIONS

    @property
    def load(self) -> str:
        """In words, for a table."""
        if self.loop == "closed":
            return f"{self.clients} client{'s' if self.clients != 1 else ''}"
        return f"{self.rate:g} a second"


class Workload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Name
    pattern: Literal["journey", "mix"]
    loop: Literal["closed", "open"] = "closed"
    clients: tuple[Clients, ...] = ()
    rates: tuple[Rate, ...] = ()
    job_ms: Annotated[tuple[Milliseconds, ...], Meta(min_length=1)] = (0,)
    payload_bytes: Annotated[int, Meta(ge=0, le=MAX_OUTPUT_BYTES)] = 64
    mix: Mix | None = None
    drain_seconds: Seconds = 5

    def cells(self) -> list[Cell]:
        loads = [(clients, 0.0) for clients in self.clients] or [(0, rate) for rate in self.rates]
        return [
            Cell(
                workload=self.name,
                pattern=self.pattern,
                loop=self.loop,
                clients=clients,
                rate=rate,
                job_ms=job_ms,
                payload_bytes=self.payload_bytes,
                mix=self.mix or Mix(),
                drain_seconds=self.drain_seconds,
            )
            for job_ms in self.job_ms
            for clients, rate in loads
        ]


class Profile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    about: str = ""
    rounds: Annotated[int, Meta(ge=1, le=MAX_ROUNDS)]
    warm_up_seconds: Seconds
    measure_seconds: MeasuredSeconds
    seed: int = 0
    generators: Annotated[int, Meta(ge=1, le=MAX_GENERATORS)] = 1
    slots: Annotated[int, Meta(ge=1, le=MAX_SLOTS)] = TOTAL_WORKER_SLOTS
    workloads: Annotated[tuple[Workload, ...], Meta(min_length=1)]

    def cells(self) -> list[Cell]:
        return [cell for workload in self.workloads for cell in workload.cells()]


def read_profiles(path: Path = SHIPPED) -> dict[str, Profile]:
    """All profiles of a file, by name."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the profiles in {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    return {name: _profile(name, value, path) for name, value in data.items()}


def find_profile(text: str) -> tuple[str, Profile]:
    """``quick``, or ``FILE:NAME`` for one in a file of one's own."""
    file, colon, name = text.rpartition(":")
    profiles = read_profiles(Path(file) if colon else SHIPPED)
    if name not in profiles:
        known = ", ".join(profiles) or "none"
        raise ConfigError(f"there is no profile {name!r} in {file or 'the shipped file'}; it has: {known}")
    return name, profiles[name]


def _profile(name: str, value: object, path: Path) -> Profile:
    try:
        profile = msgspec.convert(value, Profile)
    except msgspec.ValidationError as error:
        raise ConfigError(f"profile {name!r} in {path.name}: {error}") from None
    for workload in profile.workloads:
        _require_sense(f"profile {name!r} in {path.name}: workload {workload.name!r}", workload)
    names = [workload.name for workload in profile.workloads]
    twice = sorted({one for one in names if names.count(one) > 1})
    if twice:
        raise ConfigError(f"profile {name!r} in {path.name}: two workloads are named {twice[0]!r}; rename one")
    return profile


def _require_sense(where: str, workload: Workload) -> None:
    if workload.loop == "closed" and (not workload.clients or workload.rates):
        raise ConfigError(f"{where}: a closed loop has clients = [1, 16] and no rates")
    if workload.loop == "open" and (not workload.rates or workload.clients):
        raise ConfigError(f"{where}: an open loop has rates = [50, 100] a second and no clients")
    if workload.pattern == "mix" and (workload.mix is None or workload.mix.submit <= 0):
        raise ConfigError(
            f"{where}: a mix needs mix = {{ submit = 1, … }} with submit above 0: there is no job to ask about without"
        )
    if workload.pattern == "journey" and workload.mix is not None:
        raise ConfigError(f"{where}: a journey has no mix: it submits, asks and fetches")
