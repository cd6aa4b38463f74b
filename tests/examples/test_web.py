"""The examples that are web applications, asked through their frameworks' own test clients.

Each runs in a process of its own: both set up their framework when they are imported, and that cannot be undone.
"""

import asyncio
import subprocess
import sys
from pathlib import Path

from holdfast.stores.postgres import migrate
from tests.examples.programs import EXAMPLES, TIMEOUT_SECONDS, environment

FASTAPI = """
import asyncio
from uuid import uuid4
from fastapi.testclient import TestClient
from fastapi_app import api, app

async def work(handle):
    async with app, app.worker():
        await handle.result(timeout=60)

with TestClient(api) as client:
    answer = client.post("/thumbnails", params={"path": "a.png"})
    assert answer.status_code == 202, answer.text
    job = answer.json()["job"]
    assert client.post("/thumbnails", params={"path": "a.png"}).json()["job"] == job
    assert client.get(f"/jobs/{job}").json()["state"] == "SCHEDULED"
    assert client.get(f"/jobs/{uuid4()}").status_code == 404
asyncio.run(work(app.handle(job)))
with TestClient(api) as client:
    print(client.get(f"/jobs/{job}").json())
"""

DJANGO = """
import asyncio
import django_view
from django.core.management import call_command
from django.test import Client
from django_view import app
from holdfast.cli import main

async def work(handle):
    async with app, app.worker():
        await handle.result(timeout=60)

call_command("migrate", run_syncdb=True, verbosity=0)
assert main(["migrate", "--url", app.url]) == 0
client = Client(raise_request_exception=False)
assert client.post("/orders?product=unicorn&fail=1").status_code == 500
assert app.list_sync().jobs == ()
order = client.post("/orders?product=anvil").json()
asyncio.run(work(app.handle(order["job"])))
print(client.get(f"/orders/{order['order']}").json(), len(app.list_sync().jobs))
"""

DJANGO_ON_POSTGRESQL = """
import sys
from urllib.parse import urlsplit
import django
from django.conf import settings

parts = urlsplit(sys.argv[1])
database = {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": parts.path[1:],
    "USER": parts.username or "",
    "PASSWORD": parts.password or "",
    "HOST": parts.hostname or "",
    "PORT": str(parts.port or ""),
}
settings.configure(DATABASES={"default": database})
django.setup()
from django.db import connection, transaction
from holdfast import Holdfast

app = Holdfast(sys.argv[1])

@app.job
def send_receipt(order: int) -> None: ...

with transaction.atomic():
    send_receipt.options(connection=connection.connection, key="order-1").submit_sync(1)
try:
    with transaction.atomic():
        send_receipt.options(connection=connection.connection).submit_sync(2)
        raise RuntimeError("rolled back")
except RuntimeError:
    pass
print([job.key for job in app.list_sync().jobs])
"""


def last_line(script: str, folder: Path, *arguments: str) -> str:
    program = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert program.returncode == 0, program.stderr
    return program.stdout.splitlines()[-1]


def test_a_fastapi_route_submits_once_a_key_and_reads_the_result(tmp_path: Path) -> None:
    expected = "{'state': 'COMPLETED', 'percent': 50, 'result': {'path': 'a.png.200.png', 'width': 200}}"
    assert last_line(FASTAPI, tmp_path).replace("50.0", "50") == expected


def test_a_django_view_submits_with_its_order_or_not_at_all(tmp_path: Path) -> None:
    assert last_line(DJANGO, tmp_path) == "{'product': 'anvil', 'is_confirmed': True} 1"


def test_a_django_transaction_on_postgresql_takes_the_job_with_it(tmp_path: Path, postgres_url: str) -> None:
    asyncio.run(migrate.upgrade(postgres_url))
    assert last_line(DJANGO_ON_POSTGRESQL, tmp_path, postgres_url) == "['order-1']"


def test_the_docstrings_say_how_to_run_them() -> None:
    for name in ("fastapi_app", "django_view"):
        text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
        assert f"holdfast worker {name}:app" in text
