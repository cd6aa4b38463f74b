"""A private Redis without persistence, and just enough of its protocol to ask it questions."""

import shutil
import signal
import socket
from typing import Self

from tests.servers.packages import find_program
from tests.servers.process import GuardedProcess, ServerUnavailable, free_port, make_directory, wait_until

START_TIMEOUT_SECONDS = 10.0
ANSWER_TIMEOUT_SECONDS = 10.0


class RedisServer:
    """On 127.0.0.1. It keeps nothing on disk: ``--save "" --appendonly no``."""

    def __init__(self) -> None:
        self._binary = find_program("redis-server", package="redis-server")
        self._port = free_port()
        self._directory = make_directory("redis")
        self._process: GuardedProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def start(self) -> None:
        log = self._directory / "log"
        options = ("--bind", "127.0.0.1", "--port", str(self._port), "--save", "", "--appendonly", "no")
        self._process = GuardedProcess(
            [self._binary, *options], directory=self._directory, log=log, end_signal=signal.SIGKILL
        )
        if not wait_until(self._answers, timeout_seconds=START_TIMEOUT_SECONDS):
            self._process.end()
            raise ServerUnavailable(f"Redis did not start; its log says:\n{log.read_text()[-2000:]}")

    def close(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None
        shutil.rmtree(self._directory, ignore_errors=True)

    def ask(self, *words: str) -> str:
        """One command; its answer, if that is a number, a status or a text."""
        request = f"*{len(words)}\r\n" + "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
        with socket.create_connection(("127.0.0.1", self._port), ANSWER_TIMEOUT_SECONDS) as connection:
            connection.sendall(request.encode())
            answer = connection.makefile("rb")
            line = answer.readline().decode().rstrip("\r\n")
            if line.startswith("$") and line != "$-1":
                return answer.read(int(line[1:])).decode()
        if line.startswith("-"):
            raise ValueError(f"{words[0]}: {line[1:]}")
        return line[1:]

    def _answers(self) -> bool:
        try:
            return self.ask("PING") == "PONG"
        except OSError:
            return False
