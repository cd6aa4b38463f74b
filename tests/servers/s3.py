"""A private S3-compatible server: moto's, in a process of its own, so that the client under test meets real HTTP."""

import shutil
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Self

from tests.servers.process import GuardedProcess, ServerUnavailable, free_port, make_directory, wait_until

START_TIMEOUT_SECONDS = 60.0
REQUEST_TIMEOUT_SECONDS = 10.0
REGION = "us-east-1"


class S3Server:
    """Knows any credentials; starts without buckets."""

    def __init__(self) -> None:
        self._port = free_port()
        self._directory = make_directory("s3")
        self._process: GuardedProcess | None = None
        self._buckets = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which any S3 client finds its way here."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": REGION,
        }

    def start(self) -> None:
        log = self._directory / "log"
        self._process = GuardedProcess(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self._port)],
            directory=self._directory,
            log=log,
            end_signal=signal.SIGKILL,
            drops_rights=False,
        )
        if not wait_until(self._answers_or_died, timeout_seconds=START_TIMEOUT_SECONDS) or not self._answers():
            self._process.end()
            raise ServerUnavailable(
                f"moto's server did not start (make install); its log says:\n{log.read_text()[-2000:]}"
            )

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def stop(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None

    def create_bucket(self) -> str:
        """A new, empty bucket; its name."""
        self._buckets += 1
        name = f"bucket-{self._buckets}"
        self._request(name, method="PUT", headers=_signature())
        return name

    def read_object(self, path: str) -> bytes:
        """``bucket/key``, as no client of ours would read it."""
        return self._request(path, headers=_signature())

    def require_credentials(self) -> None:
        """From here on only known users are served, and there are none."""
        self._request("moto-api/reset-auth", method="POST", headers={"Content-Type": "text/plain"}, body=b"0")

    def _answers_or_died(self) -> bool:
        return self._process is None or not self._process.is_running or self._answers()

    def _answers(self) -> bool:
        try:
            self._request("moto-api/data.json")
        except (urllib.error.URLError, OSError):
            return False
        return True

    def _request(
        self, path: str, *, method: str = "GET", headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> bytes:
        request = urllib.request.Request(
            f"{self.endpoint}/{path}", method=method, headers=dict(headers or {}), data=body
        )
        with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT_SECONDS) as answer:
            data: bytes = answer.read()
            return data


def _signature() -> dict[str, str]:
    # moto tells services apart by the credential scope of the signature; it checks nothing else of it.
    scope = f"test/20200101/{REGION}/s3/aws4_request"
    return {"Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=none"}
