"""A private RabbitMQ at its default settings: its own node, port mapper and folders, all on the loopback."""

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Self

from tests.servers.packages import find_program
from tests.servers.process import (
    GuardedProcess,
    ServerUnavailable,
    free_port,
    give_away,
    identity,
    make_directory,
    wait_until,
)

START_TIMEOUT_SECONDS = 60.0
CONTROL_TIMEOUT_SECONDS = 30.0
HEADER = b"AMQP\x00\x00\x09\x01"


class RabbitServer:
    def __init__(self) -> None:
        # Not the wrapper in /usr/sbin: it changes the user and hides the output.
        self._binaries = find_program("rabbitmq-server", package="rabbitmq-server").resolve().parent
        if not (self._binaries / "rabbitmq-env").exists():
            self._binaries = Path("/usr/lib/rabbitmq/bin")
        self._port = free_port()
        self._mapper_port = free_port()
        self._directory = make_directory("rabbitmq")
        self._mapper: GuardedProcess | None = None
        self._process: GuardedProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self._port}/"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def start(self) -> None:
        self._configure()
        log = self._directory / "log"
        # Started here and in the foreground, so that it ends with us: the node would leave a daemon behind.
        mapper = ["epmd", "-port", str(self._mapper_port), "-address", "127.0.0.1"]
        self._mapper = GuardedProcess(mapper, directory=self._directory, log=log, end_signal=signal.SIGKILL)
        server = ["env", *self._variables(), str(self._binaries / "rabbitmq-server")]
        self._process = GuardedProcess(server, directory=self._directory, log=log, end_signal=signal.SIGKILL)
        if not wait_until(self._answers, timeout_seconds=START_TIMEOUT_SECONDS):
            self.stop()
            raise ServerUnavailable(f"RabbitMQ did not start; its log says:\n{log.read_text()[-2000:]}")

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def stop(self) -> None:
        for process in (self._process, self._mapper):
            if process is not None:
                process.end()
        self._process = self._mapper = None

    def queues(self) -> dict[str, int]:
        """Messages by queue, those that were delivered and not acknowledged included. Takes about a second."""
        rows = [line.split("\t") for line in self._control("list_queues", "name", "messages").splitlines()]
        return {name: int(count) for name, count in rows if count.isdigit()}

    def version(self) -> str:
        return self._control("version").strip()

    def _control(self, *words: str) -> str:
        command = ["env", *self._variables(), str(self._binaries / "rabbitmqctl"), "--quiet", *words]
        done = subprocess.run(
            command,
            cwd=self._directory,
            capture_output=True,
            text=True,
            timeout=CONTROL_TIMEOUT_SECONDS,
            check=True,
            **identity(),
        )
        return str(done.stdout)

    def _configure(self) -> None:
        for name in ("home", "mnesia", "logs"):
            path = self._directory / name
            path.mkdir(exist_ok=True)
            give_away(path)
        (self._directory / "enabled_plugins").write_text("[].\n")
        (self._directory / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{self._port}\n")

    def _variables(self) -> list[str]:
        values = {
            "HOME": self._directory / "home",
            "RABBITMQ_NODENAME": f"holdfast{self._port}@localhost",
            "RABBITMQ_DIST_PORT": self._port + 1,
            "ERL_EPMD_PORT": self._mapper_port,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_MNESIA_BASE": self._directory / "mnesia",
            "RABBITMQ_LOG_BASE": self._directory / "logs",
            "RABBITMQ_CONFIG_FILE": self._directory / "rabbitmq",
            "RABBITMQ_ENABLED_PLUGINS_FILE": self._directory / "enabled_plugins",
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            # The script then becomes the server instead of starting it beside itself.
            "RUNNING_UNDER_SYSTEMD": "true",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }
        return [f"{name}={value}" for name, value in values.items()]

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), 5) as connection:
                connection.sendall(HEADER)
                return len(connection.recv(1)) == 1
        except OSError:
            return False
