"""A server's program: the machine's own, or installed with apt when it is missing and we may."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.servers.process import ServerUnavailable, one_at_a_time

INSTALL_TIMEOUT_SECONDS = 300.0
FOLDERS = ("/usr/sbin", "/usr/lib/rabbitmq/bin")


def find_program(name: str, *, package: str) -> Path:
    program = locate(name)
    if program is None and os.geteuid() == 0 and shutil.which("apt-get"):
        with one_at_a_time("packages"):
            # Another process may have been first.
            if locate(name) is None:
                install(package)
        program = locate(name)
    if program is None:
        raise ServerUnavailable(f"no {name}: apt-get install -y --no-install-recommends {package}")
    return program


def locate(name: str) -> Path | None:
    found = shutil.which(name, path=":".join((*reversed(FOLDERS), os.environ.get("PATH", ""))))
    return Path(found) if found else None


def install(package: str) -> None:
    # RUNLEVEL=1: the package's own server must not start; ours is private and on the loopback.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for command in (("apt-get", "update"), ("apt-get", "install", "-y", "--no-install-recommends", package)):
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_SECONDS, check=False
        )
        if done.returncode != 0:
            raise ServerUnavailable(f"{' '.join(command)} failed: {done.stderr.strip()[-1000:]}")
