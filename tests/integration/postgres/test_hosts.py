"""Several hosts in one URL: the one that can be written to is found, and a dead one does not keep anybody waiting."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg
import pytest

from holdfast.cli import main
from holdfast.core.errors import ConfigError, Unavailable
from holdfast.stores.postgres import hosts as hosts_module
from holdfast.stores.postgres import migrate
from holdfast.stores.postgres.hosts import Hosts, one_host_each
from holdfast.testing.factories import submit_one
from holdfast.wiring import create_store, split_options, without_password
from tests.integration.postgres.databases import fetch, listening, opened
from tests.servers import PostgresPair
from tests.servers.process import free_port

TWO_HOSTS = "postgresql://app:secret@one:5432,two:5433/shop?target_session_attrs=primary&schema=queue"


def behind(first: str, url: str) -> str:
    """The URL with one more host, which is tried before its own."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user}{at}{first},{host}").geturl()


def nobody() -> str:
    return f"127.0.0.1:{free_port()}"


class Hole:
    """Accepts connections and says nothing, as a host that was stopped or cut off does."""

    def __init__(self) -> None:
        self.host = ""
        self.callers: list[asyncio.StreamWriter] = []

    async def take(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.callers.append(writer)


@asynccontextmanager
async def silent_host() -> AsyncIterator[Hole]:
    hole = Hole()
    server = await asyncio.start_server(hole.take, "127.0.0.1", 0)
    hole.host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield hole
    finally:
        for caller in hole.callers:
            caller.close()
        server.close()


def test_every_host_gets_a_url_that_keeps_the_rest() -> None:
    assert one_host_each("postgresql://app:p%40ss@one:5432,[::1]:5433,two/shop?sslmode=require") == {
        "one:5432": "postgresql://app:p%40ss@one:5432/shop?sslmode=require",
        "[::1]:5433": "postgresql://app:p%40ss@[::1]:5433/shop?sslmode=require",
        "two": "postgresql://app:p%40ss@two/shop?sslmode=require",
    }
    assert one_host_each("postgresql:///shop") == {"": "postgresql:///shop"}


def test_our_options_and_the_password_are_taken_out_of_a_url_with_several_hosts() -> None:
    plain, options = split_options(TWO_HOSTS)
    assert plain == "postgresql://app:secret@one:5432,two:5433/shop?target_session_attrs=primary"
    assert options == {"schema": "queue"}
    assert without_password(TWO_HOSTS) == TWO_HOSTS.replace("secret", "***")
    create_store(TWO_HOSTS)


async def test_a_host_that_refuses_is_passed_by(url: str) -> None:
    async with opened(behind(nobody(), url)) as store:
        await submit_one(store)


async def test_a_host_that_says_nothing_is_passed_by_and_not_tried_first_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts_module, "HOST_SECONDS", 0.3)
    async with silent_host() as hole:
        hosts = Hosts(behind(hole.host, url))
        for _ in range(3):
            connection = await hosts.connect()
            assert await connection.fetchval("SELECT 1") == 1
            await connection.close()
        assert len(hole.callers) == 1


async def test_a_caller_whose_patience_is_shorter_than_a_silent_host_gets_to_the_next_one(url: str) -> None:
    async with silent_host() as hole:
        hosts = Hosts(behind(hole.host, url))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await hosts.connect()
        connection = await hosts.connect()
        await connection.close()
        assert len(hole.callers) == 1


async def test_what_every_host_refuses_for_good_is_said_as_it_is(url: str) -> None:
    missing = urlsplit(url)._replace(path="/no_such_database").geturl()
    twice = behind(urlsplit(url).netloc.rpartition("@")[2].replace("127.0.0.1", "localhost"), missing)
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await Hosts(twice).connect()
    with pytest.raises(Unavailable, match="no_such_database"):
        await Hosts(behind(nobody(), missing)).connect()


async def test_a_url_that_the_driver_does_not_understand_is_a_mistake(url: str) -> None:
    with pytest.raises(ConfigError):
        await Hosts(f"{behind(nobody(), url)}?target_session_attrs=nonsense").connect()
    with pytest.raises(ConfigError):
        Hosts("postgresql://[::1/shop")


async def test_each_host_that_failed_is_named_without_the_password() -> None:
    one, two = nobody(), nobody()
    with pytest.raises(Unavailable) as caught:
        await Hosts(f"postgresql://app:secret@{one},{two}/shop").connect()
    assert one in str(caught.value)
    assert two in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("target", ["", "?target_session_attrs=read-write", "?target_session_attrs=primary"])
async def test_the_primary_is_found_behind_its_standby(postgres_pair: PostgresPair, target: str) -> None:
    name = postgres_pair.create_database()
    url = postgres_pair.url(name, is_standby_first=True).partition("?")[0] + target
    await migrate.upgrade(url)
    postgres_pair.catch_up()
    async with opened(url) as store:
        await submit_one(store)
        await listening(store)
    assert await fetch(postgres_pair.primary.url(name), "SELECT FROM holdfast.job")


def test_commands_take_a_url_with_several_hosts(
    postgres_pair: PostgresPair, capsys: pytest.CaptureFixture[str]
) -> None:
    url = postgres_pair.url(postgres_pair.create_database(), is_standby_first=True)
    assert main(["migrate", "--url", url]) == 0
    assert main(["submit", "greet", "--url", url, "--json"]) == 0
    capsys.readouterr()
    assert main(["jobs", "--url", url]) == 0
    assert "greet" in capsys.readouterr().out


async def test_a_standby_alone_is_unavailable_and_says_why(postgres_pair: PostgresPair) -> None:
    assert postgres_pair.standby is not None
    url = behind(nobody(), postgres_pair.standby.url("postgres"))
    with pytest.raises(Unavailable, match="standby"):
        await Hosts(url).connect()
