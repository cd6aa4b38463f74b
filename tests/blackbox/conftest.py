"""Every test that asks for ``api`` runs once against each server.

The processes of a server are started once a session and serve all of its tests, which follow each other. With
pytest-xdist they mostly go to one worker, and with ``--dist loadgroup`` all of them, so that no second set is started.
"""

from collections.abc import Iterator

import pytest

from tests.blackbox import targets
from tests.blackbox.api import Api
from tests.blackbox.blocking import Blocker
from tests.blackbox.targets import Target
from tests.servers import Postgres

NAMES = tuple(targets.given()) or ("a", "b", "sqlite", "postgres")


@pytest.fixture(
    scope="session",
    params=[pytest.param(name, marks=pytest.mark.xdist_group(f"blackbox-{name}"), id=name) for name in NAMES],
)
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    name: str = request.param
    if name in targets.given():
        yield targets.given()[name]
    elif name in ("a", "b"):
        with targets.cluster(name) as started:
            yield started
    elif name == "sqlite":
        with targets.durable_on_sqlite(tmp_path_factory.mktemp("durable")) as started:
            yield started
    else:
        server: Postgres = request.getfixturevalue("postgres_server")
        database = server.create_database()
        with targets.durable_on_postgres(server.url(database)) as started:
            yield started
        server.drop_database(database)


@pytest.fixture(scope="session")
def api(target: Target) -> Iterator[Api]:
    opened = Api(target.addresses)
    yield opened
    opened.close()


@pytest.fixture
def one(api: Api) -> Api:
    """Through one address only. In Design B what is submitted there without a key stays there, and is listed there."""
    return api.at(0)


@pytest.fixture(scope="session")
def blocker(api: Api, target: Target) -> Blocker:
    return Blocker(api.at(0), slots=target.slots_at_an_address)


@pytest.fixture
def blocked(blocker: Blocker) -> list[str]:
    """Jobs that run in every slot behind the first address, so that the next one submitted there waits."""
    return blocker.hold()
