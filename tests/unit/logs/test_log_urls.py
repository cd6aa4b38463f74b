"""From a URL to a place for execution logs, and from its errors to what the caller should do."""

import errno
import os
from pathlib import Path

import pytest
from obstore import exceptions

from holdfast.core.errors import ConfigError, HoldfastError, Unavailable
from holdfast.logs.errors import translate
from holdfast.logs.places import Folder, Remote, find_place
from holdfast.wiring import create_log_store, default_log_url, find_log_url


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("logs", "logs"),
        ("./a b/logs", "a b/logs"),
        ("/var/logs", "/var/logs"),
        ("file:///var/logs/", "/var/logs"),
        ("file:///a%20b", "/a b"),
    ],
)
def test_a_folder_is_a_path_or_a_file_url(url: str, path: str) -> None:
    place = find_place(url)
    assert isinstance(place, Folder)
    assert place.path == Path(path)


@pytest.mark.parametrize("url", ["s3://bucket", "s3://bucket/a/prefix/", "memory://"])
def test_a_bucket_and_memory_are_there_from_the_beginning(url: str) -> None:
    assert isinstance(find_place(url), Remote)


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("", "names no place"),
        ("file://", "names no place"),
        ("s3://", "names no place"),
        ("s3:///prefix", "names no place"),
        ("ftp://host/logs", "one of file://, s3://, memory://"),
        ("file://var/logs", "write three slashes: file:///var/logs"),
        ("s3://bucket?region=x", "AWS_* variables"),
    ],
)
def test_a_url_that_names_no_place_is_refused_with_the_remedy(url: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as raised:
        create_log_store(url)
    assert remedy in str(raised.value)


@pytest.mark.parametrize(
    ("store_url", "expected"),
    [
        ("sqlite:///jobs.db", str(Path.cwd() / "jobs.db-logs")),
        ("sqlite:////var/jobs.db", "/var/jobs.db-logs"),
        ("postgresql://somebody:secret@host/database", "./holdfast-logs"),
        ("memory://", "memory://"),
    ],
)
def test_logs_lie_beside_the_database_by_default(
    store_url: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_LOGS", raising=False)
    assert default_log_url(store_url) == expected


def test_the_environment_overrides_the_default_and_what_is_given_overrides_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOLDFAST_LOGS", "s3://bucket")
    assert default_log_url("sqlite:///jobs.db") == "s3://bucket"
    assert find_log_url(None, "sqlite:///jobs.db") == "s3://bucket"
    assert find_log_url("here", "sqlite:///jobs.db") == "here"
    assert find_log_url("off", "sqlite:///jobs.db") is None
    monkeypatch.setenv("HOLDFAST_LOGS", "off")
    assert find_log_url(None, "sqlite:///jobs.db") is None


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (exceptions.PermissionDeniedError("no"), ConfigError),
        (exceptions.UnauthenticatedError("no"), ConfigError),
        (exceptions.UnknownConfigurationKeyError("no"), ConfigError),
        (exceptions.InvalidPathError("no"), ConfigError),
        (exceptions.NotSupportedError("no"), ConfigError),
        (exceptions.GenericError("… NoSuchBucket …"), ConfigError),
        (exceptions.GenericError("… status code: 403 …"), ConfigError),
        (exceptions.GenericError("Error performing PUT http://169.254.169.254/latest/api/token"), ConfigError),
        (exceptions.GenericError("Read-only file system (os error 30)"), ConfigError),
        (exceptions.GenericError("No space left on device (os error 28)"), Unavailable),
        (exceptions.GenericError("… status code: 503 …"), Unavailable),
        (exceptions.GenericError("error sending request"), Unavailable),
        (exceptions.JoinError("no"), Unavailable),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), Unavailable),
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES)), ConfigError),
        (ValueError("no"), ConfigError),
    ],
)
def test_an_error_says_whether_to_fix_the_setup_or_to_try_again(
    error: Exception, expected: type[HoldfastError]
) -> None:
    translated = translate(error, "s3://bucket")
    assert type(translated) is expected
    assert str(translated).startswith("execution logs in s3://bucket: ")


def test_only_the_first_line_of_the_librarys_account_is_for_people() -> None:
    assert "\n" not in str(translate(exceptions.GenericError("short\n\nDebug source:\nlong"), "logs"))
