"""The places a log store is tested on. One S3 server serves a test process."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.core.ports import LogStore
from holdfast.wiring import create_log_store
from tests.servers import S3Server, ServerUnavailable


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    try:
        server = S3Server()
        server.start()
    except ServerUnavailable as problem:
        pytest.fail(str(problem), pytrace=False)
    with server:
        yield server


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, with this process's environment leading to it."""
    point_to(s3_server, monkeypatch)
    return s3_server


@pytest.fixture
def private_s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """A server of the test's own, to stop and to reconfigure."""
    with S3Server() as server:
        point_to(server, monkeypatch)
        yield server


def point_to(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(params=["folder", "memory", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return f"file://{tmp_path}/a%20folder/logs"
    if request.param == "memory":
        return "memory://"
    server: S3Server = request.getfixturevalue("s3")
    return f"s3://{server.create_bucket()}/some/prefix"


@pytest.fixture
async def store(url: str) -> AsyncIterator[LogStore]:
    store = create_log_store(url)
    await store.open()
    yield store
    await store.close()
