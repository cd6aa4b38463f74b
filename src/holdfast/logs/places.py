"""Where execution logs lie: from a URL to the library's store.

::

    ./logs, file:///var/logs       a folder, made by the first write
    s3://bucket/prefix             any S3-compatible storage; endpoint, region and credentials by the AWS_* variables
    memory://                      for tests; gone with the object
"""

import asyncio
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

import obstore
from obstore.store import LocalStore, MemoryStore, ObjectStore, S3Store

from holdfast.core.errors import ConfigError

CONNECT_TIMEOUT: Final = timedelta(seconds=5)
REQUEST_TIMEOUT: Final = timedelta(seconds=15)
MAX_RETRIES: Final = 3
RETRY_TIMEOUT: Final = timedelta(seconds=20)
SCHEMES: Final = ("file", "s3", "memory")
ENDPOINT_VARIABLES: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


class Place(Protocol):
    @property
    def store(self) -> ObjectStore | None:
        """None as long as it must be asked for, below."""
        ...

    async def check(self) -> None:
        """Raises what a write would raise, as far as that can be known beforehand."""
        ...

    def for_reading(self) -> ObjectStore | None:
        """None where nothing was ever written. May block: for a thread."""
        ...

    def for_writing(self) -> ObjectStore:
        """May block: for a thread."""
        ...


class Folder:
    """The library wants the folder to exist; we make it when there is something to put into it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store: ObjectStore | None = None

    async def check(self) -> None:
        await asyncio.to_thread(self._check)

    def _check(self) -> None:
        nearest = next(parent for parent in (self.path, *self.path.absolute().parents) if parent.exists())
        if not nearest.is_dir():
            raise ConfigError(f"execution logs in {self.path}: {nearest} is not a folder")
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise ConfigError(f"execution logs in {self.path}: {nearest} is not writable for this user")

    def for_reading(self) -> ObjectStore | None:
        return self.for_writing() if self.path.is_dir() else None

    def for_writing(self) -> ObjectStore:
        self.path.mkdir(parents=True, exist_ok=True)
        self.store = LocalStore(self.path, automatic_cleanup=True)
        return self.store


class Remote:
    """A bucket, or memory: there from the beginning."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store

    async def check(self) -> None:
        await obstore.list_with_delimiter_async(self.store)

    def for_reading(self) -> ObjectStore | None:
        return self.store

    def for_writing(self) -> ObjectStore:
        return self.store


def find_place(url: str) -> Place:
    """ConfigError where the URL is at fault."""
    if "://" not in url:
        return Folder(Path(_given(url, url)))
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise ConfigError(f"{url!r} names no place for execution logs; give a folder or a URL with one of {known}")
    if parts.query or parts.fragment:
        raise ConfigError(f"{url!r}: a place for execution logs has no options; S3's are the AWS_* variables")
    if parts.scheme == "memory":
        return Remote(MemoryStore())
    if parts.scheme == "s3":
        return _bucket(_given(parts.netloc, url), parts.path.strip("/"))
    if parts.netloc:
        raise ConfigError(f"{url!r} has a host; write three slashes: file:///{parts.netloc}{parts.path}")
    return Folder(Path(unquote(_given(parts.path.rstrip("/"), url))))


def _given(text: str, url: str) -> str:
    if not text:
        raise ConfigError(f"{url!r} names no place for execution logs; write s3://bucket/prefix or file:///folder")
    return text


def _bucket(name: str, prefix: str) -> Place:
    return Remote(
        S3Store(
            name,
            prefix=prefix or None,
            client_options={
                "connect_timeout": CONNECT_TIMEOUT,
                "timeout": REQUEST_TIMEOUT,
                "allow_http": _is_plain_http(os.environ),
            },
            retry_config={"max_retries": MAX_RETRIES, "retry_timeout": RETRY_TIMEOUT},
        )
    )


def _is_plain_http(environment: Mapping[str, str]) -> bool:
    """Whoever names an http:// endpoint has said that it may be one."""
    endpoint = next((environment[name] for name in ENDPOINT_VARIABLES if environment.get(name)), "")
    return endpoint.startswith("http://") or environment.get("AWS_ALLOW_HTTP", "").lower() == "true"
