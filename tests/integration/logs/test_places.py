"""What is each place's own: keys, strangers in the same place, and what is said when it is not there."""

import os
import pwd
import subprocess
import sys
import tempfile
from datetime import UTC, date, datetime
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from holdfast.core.errors import ConfigError, Unavailable
from holdfast.core.job import LogKey
from holdfast.logs import ObjectLogStore, places
from tests.servers import S3Server

CREATED_AT = datetime(2026, 3, 31, 12, tzinfo=UTC)
ENTRY = LogKey(
    job_id=UUID("6c9f4e60-3f0e-4d3c-9a68-0f4b7c6f6c11"),
    created_at=CREATED_AT,
    attempt=2,
    attempt_id=UUID("0d9f0c1f-54a6-4e31-8d5c-2f7a6b1f7e22"),
)
PATH = f"2026-03-31/{ENTRY.job_id}/2-{ENTRY.attempt_id}.jsonl"


async def test_a_folder_is_made_by_the_first_write_and_not_before(tmp_path: Path) -> None:
    store = ObjectLogStore(str(tmp_path / "new" / "logs"))
    await store.open()
    assert await store.read(uuid4(), created_at=CREATED_AT) == []
    assert await store.remove_before(date(2030, 1, 1)) == 0
    assert list(tmp_path.iterdir()) == []
    await store.write(ENTRY, b"words\n")
    assert (tmp_path / "new" / "logs" / PATH).read_bytes() == b"words\n"


async def test_one_who_opened_before_the_folder_was_there_reads_what_another_wrote(tmp_path: Path) -> None:
    reader, writer = (ObjectLogStore(str(tmp_path / "logs")) for _ in range(2))
    await reader.open()
    await writer.write(ENTRY, b"words")
    assert len(await reader.read(ENTRY.job_id, created_at=CREATED_AT)) == 1


async def test_a_relative_folder_is_relative_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = ObjectLogStore("./logs")
    await store.open()
    await store.write(ENTRY, b"words")
    assert (tmp_path / "logs" / PATH).exists()


async def test_removing_leaves_no_empty_folders_and_no_stranger_is_touched(tmp_path: Path) -> None:
    store = ObjectLogStore(str(tmp_path))
    await store.write(ENTRY, b"words")
    strangers = [tmp_path / "notes.txt", tmp_path / "2026-W01" / "a.jsonl", tmp_path / "2026-03-30" / "a.txt"]
    for path in strangers:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    assert await store.remove_before(date(2030, 1, 1)) == 1
    assert not (tmp_path / "2026-03-31").exists()
    assert all(path.exists() for path in strangers)


async def test_a_stranger_beside_a_log_is_not_read(tmp_path: Path) -> None:
    store = ObjectLogStore(str(tmp_path))
    await store.write(ENTRY, b"words")
    (tmp_path / PATH).with_name("notes.jsonl").write_text("mine")
    (tmp_path / PATH).with_name(f"1-{'-' * 36}.jsonl").write_text("mine")
    assert len(await store.read(ENTRY.job_id, created_at=CREATED_AT)) == 1


async def test_a_file_where_the_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for url in (tmp_path / "file", tmp_path / "file" / "logs"):
        store = ObjectLogStore(str(url))
        with pytest.raises(ConfigError, match="file is not a folder"):
            await store.open()
        with pytest.raises(ConfigError, match="execution logs in"):
            await store.write(ENTRY, b"words")


def test_a_folder_that_may_not_be_written_is_named() -> None:
    # Not tmp_path, whose parents only its owner may enter.
    with tempfile.TemporaryDirectory() as parent:
        Path(parent).chmod(0o555)
        opened, written = (
            _run(f"asyncio.run({step})", Path(parent) / "logs", unprivileged=True)
            for step in ("store.open()", "store.write(key, b'')")
        )
    assert opened == f"ConfigError: execution logs in {parent}/logs: {parent} is not writable for this user"
    assert written == f"ConfigError: execution logs in {parent}/logs: [Errno 13] Permission denied: '{parent}/logs'"


def test_a_day_that_may_not_be_written_is_named() -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o555)
        written = _run("asyncio.run(store.write(key, b''))", Path(place), unprivileged=True)
    assert written.startswith(f"ConfigError: execution logs in {place}: ")


def _run(steps: str, place: Path, *, unprivileged: bool = False) -> str:
    """The error that a process of its own meets; root may write everywhere, so it is nobody where that matters."""
    nobody = pwd.getpwnam("nobody")
    drop_rights = f"os.setgroups([]); os.setgid({nobody.pw_gid}); os.setuid({nobody.pw_uid})"
    program = f"""
import asyncio, concurrent.futures.thread, os  # imported while it may still read them
from datetime import datetime, UTC
from uuid import uuid4
from holdfast.core.errors import HoldfastError
from holdfast.core.job import LogKey
from holdfast.logs import ObjectLogStore
store = ObjectLogStore({str(place)!r})
key = LogKey(job_id=uuid4(), created_at=datetime.now(UTC), attempt=1, attempt_id=uuid4())
{drop_rights if unprivileged and os.geteuid() == 0 else ""}
try:
    {steps.strip().replace(chr(10), chr(10) + "    ")}
except HoldfastError as error:
    print(f"{{type(error).__name__}}: {{error}}")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_disk_that_takes_no_more_is_a_matter_of_trying_again(tmp_path: Path) -> None:
    program = """
import asyncio, resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
asyncio.run(store.write(key, bytes(100_000)))
"""
    assert _run(program, tmp_path).startswith("Unavailable: execution logs in")


async def test_the_key_in_a_bucket_says_day_job_and_attempt(s3: S3Server) -> None:
    bucket = s3.create_bucket()
    store = ObjectLogStore(f"s3://{bucket}/a/prefix/")
    await store.open()
    await store.write(ENTRY, b"words\n")
    assert s3.read_object(f"{bucket}/a/prefix/{PATH}") == b"words\n"


async def test_prefixes_of_one_bucket_are_kept_apart(s3: S3Server) -> None:
    bucket = s3.create_bucket()
    one, other = ObjectLogStore(f"s3://{bucket}/one"), ObjectLogStore(f"s3://{bucket}/other")
    await one.write(ENTRY, b"words")
    assert await other.remove_before(date(2030, 1, 1)) == 0
    assert await other.read(ENTRY.job_id, created_at=CREATED_AT) == []
    assert await one.remove_before(date(2030, 1, 1)) == 1


async def test_a_bucket_that_does_not_exist_is_a_fault_of_the_setup(s3: S3Server) -> None:
    store = ObjectLogStore("s3://nobody-made-this")
    for step in (store.open(), store.write(ENTRY, b""), store.remove_before(date(2030, 1, 1))):
        with pytest.raises(ConfigError, match="the bucket does not exist: create it"):
            await step


async def test_credentials_that_are_refused_are_a_fault_of_the_setup(private_s3: S3Server) -> None:
    bucket = private_s3.create_bucket()
    store = ObjectLogStore(f"s3://{bucket}")
    await store.open()
    private_s3.require_credentials()
    for step in (store.open(), store.write(ENTRY, b""), store.read(ENTRY.job_id, created_at=CREATED_AT)):
        with pytest.raises(ConfigError, match="refuses the credentials"):
            await step


async def test_a_server_that_is_away_is_a_matter_of_trying_again(
    private_s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "MAX_RETRIES", 0)
    store = ObjectLogStore(f"s3://{private_s3.create_bucket()}")
    await store.write(ENTRY, b"words")
    private_s3.stop()
    for step in (store.open(), store.write(ENTRY, b""), store.read(ENTRY.job_id, created_at=CREATED_AT)):
        with pytest.raises(Unavailable) as raised:
            await step
        assert "\n" not in str(raised.value)
    private_s3.start()
    bucketless = ObjectLogStore("s3://bucket-1")
    with pytest.raises(ConfigError):  # it came back, and has forgotten everything
        await bucketless.open()
