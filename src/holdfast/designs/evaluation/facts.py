"""What a reader needs to judge a run and to repeat it: ``config.json``."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.core.errors import ConfigError
from holdfast.designs.evaluation.fairness import Check, cores
from holdfast.designs.evaluation.profiles import Profile

MADE_BY: Final = "holdfast eval"
PACKAGES: Final = ("holdfast", "grpcio", "protobuf", "asyncpg")


class Facts(Struct, frozen=True, kw_only=True):
    name: str
    command: str
    profile_name: str
    profile: Profile
    designs: list[str]
    addresses: dict[str, list[str]]
    """Of designs that were not started here."""
    started_at: str
    seconds: float = 0.0
    machine: dict[str, str]
    checks: list[Check]
    forced: bool
    made_by: str = MADE_BY

    @property
    def broken_rules(self) -> list[Check]:
        return [check for check in self.checks if not check.holds]


def about_machine() -> dict[str, str]:
    return {
        "processor": _processor(),
        "cores": str(cores()),
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        **{name: found for name in PACKAGES if (found := _version(name))},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def write_facts(folder: Path, facts: Facts) -> None:
    text = msgspec.json.format(msgspec.json.encode(facts), indent=1)
    (folder / "config.json").write_bytes(text + b"\n")


def read_facts(folder: Path) -> Facts:
    try:
        return msgspec.json.decode((folder / "config.json").read_bytes(), type=Facts)
    except OSError as error:
        raise ConfigError(f"{folder} is not an evaluation's folder: config.json: {error.strerror}") from None
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ConfigError(f"{folder} is not an evaluation's folder: config.json: {error}") from None
