"""PostgreSQL's own clock, moved while the server runs: as ``clock`` does it, for a program that is not ours.

``server_clock.c`` stands before libc in the server's processes and adds the number in the mapped file to the time. So
no restart is needed, and a restart in between changes nothing.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Final

from chaos.clock import CLOCK_VARIABLE, Clock
from tests.servers.process import ServerUnavailable, give_away, make_directory

SOURCE: Final = Path(__file__).with_name("server_clock.c")
COMPILERS: Final = ("cc", "gcc", "clang")
REMEDY: Final = "Install a C compiler (Debian: apt-get install -y --no-install-recommends gcc libc6-dev)"


def find_compiler() -> str | None:
    return next((path for name in COMPILERS if (path := shutil.which(name))), None)


class ServerClock(Clock):
    """In a folder that the server's user can read; ``close`` removes it."""

    def __init__(self) -> None:
        self._folder = make_directory("clock")
        super().__init__(self._folder / "offset")
        self._library = self._folder / "clock.so"
        self._compile()
        for path in (self.path, self._library):
            give_away(path)

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), CLOCK_VARIABLE: str(self.path)}

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _compile(self) -> None:
        compiler = find_compiler()
        if compiler is None:
            raise ServerUnavailable(f"nothing to move PostgreSQL's clock with: no C compiler. {REMEDY}")
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(self._library), str(SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ServerUnavailable(f"{SOURCE.name} was not compiled: {done.stderr.strip()[-1000:]}. {REMEDY}")
