"""An environment for each system: built once below ``.bench/``, used again while its requirements are the same.

Python ones by uv where there is one, else by pip; node ones by npm. A system that cannot be installed is reported with
the reason. Holdfast itself runs in the environment of the project.
"""

import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.peers.catalogue import System

REPOSITORY: Final = Path(__file__).parents[2]
FOLDER: Final = REPOSITORY / ".bench" / "env"
STAMP: Final = ".requirements"
INSTALL_TIMEOUT_SECONDS: Final = 600


class NotInstalled(Exception):
    """The system cannot be had on this machine; the message says why."""


class NoInterpreter(NotInstalled):
    """The machine has no interpreter that is new enough: the system is left out with a note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """How a system's programs are started."""

    bin: Path
    node: str | None = None
    variables: tuple[tuple[str, str], ...] = ()

    @property
    def python(self) -> Path:
        return self.bin / "python"


def environment_of(system: System) -> Environment:
    """Installs what is not installed yet; raises ``NotInstalled``."""
    if system.runtime == "project":
        return Environment(bin=Path(sys.executable).parent)
    if system.runtime == "node":
        return _node_environment(system)
    return python_environment(system.name, system.folder / "requirements.txt", oldest=system.python)


def python_environment(name: str, requirements: Path, *, oldest: str = "3.11") -> Environment:
    folder = FOLDER / name
    stamp = _digest(requirements)
    if not _is_current(folder, stamp):
        python = _interpreter(oldest)
        shutil.rmtree(folder, ignore_errors=True)
        uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
        if uv:
            _run(uv, "venv", "--quiet", "--python", python, folder)
            _run(uv, "pip", "install", "--quiet", "--python", folder / "bin" / "python", "-r", requirements)
        else:
            _run(python, "-m", "venv", folder)
            _run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "-r", requirements)
        (folder / STAMP).write_text(stamp)
    return Environment(bin=folder / "bin")


def _node_environment(system: System) -> Environment:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise NotInstalled("it needs node and npm on PATH (Debian: apt-get install -y nodejs npm)")
    folder, package = FOLDER / system.name, system.folder / "package.json"
    lock = system.folder / "package-lock.json"
    stamp = _digest(package, lock)
    if not _is_current(folder, stamp):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for path in (package, lock, system.folder / ".npmrc"):
            shutil.copy(path, folder)
        # Not `ci`: it refuses a lock that lacks optional packages of platforms that nobody here has.
        _run(npm, "install", "--no-audit", "--no-fund", "--loglevel=error", cwd=folder)
        (folder / STAMP).write_text(stamp)
    # CommonJS programs find their packages by this, wherever they lie themselves.
    return Environment(bin=folder, node=node, variables=(("NODE_PATH", str(folder / "node_modules")),))


def _interpreter(oldest: str) -> str:
    """The project's own where it will do: most systems are then measured on the same Python as Holdfast."""
    wanted = tuple(int(part) for part in oldest.split("."))
    if sys.version_info[:2] >= wanted:
        return sys.executable
    listed = subprocess.run([REPOSITORY / "tools" / "pythons"], capture_output=True, text=True, check=False).stdout
    for line in listed.splitlines():
        version, path = line.split(maxsplit=1)
        if tuple(int(part) for part in version.split(".")) >= wanted:
            return path
    raise NoInterpreter(f"it needs Python {oldest} or newer, and this machine has none")


def _digest(*paths: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def _is_current(folder: Path, stamp: str) -> bool:
    path = folder / STAMP
    return path.exists() and path.read_text() == stamp


def _run(*command: str | Path, cwd: Path | None = None) -> None:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=INSTALL_TIMEOUT_SECONDS,
    )
    if done.returncode != 0:
        said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise NotInstalled(f"{Path(command[0]).name}: {' / '.join(said[:3])[:300] or 'failed'}")
