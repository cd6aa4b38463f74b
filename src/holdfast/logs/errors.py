"""What an error of the object store means to the caller: fix the set-up, or try again."""

import errno
import re
from typing import Final

from obstore import exceptions

from holdfast.core.errors import ConfigError, HoldfastError, Unavailable

ERRORS: Final = (exceptions.BaseError, OSError, ValueError)
"""All that the library raises."""

_CREDENTIALS_REMEDY: Final = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"

# By what the server says, first match stands. The library has classes for some of these, but not for every request.
_REMEDIES: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile("NoSuchBucket"), "the bucket does not exist: create it, or correct its name"),
    (re.compile("169\\.254\\.169\\.254"), f"no credentials: {_CREDENTIALS_REMEDY}"),
    (re.compile("status code: 40[13]"), f"the server refuses the credentials: correct them ({_CREDENTIALS_REMEDY})"),
    (re.compile("incorrectly configured region|status code: 301"), "the bucket is in another region: set AWS_REGION"),
    (re.compile("URL scheme is not allowed"), "the endpoint is not encrypted: set AWS_ALLOW_HTTP=true, or use https"),
)
_CONFIG_ERRORS: Final = (
    exceptions.PermissionDeniedError,
    exceptions.UnauthenticatedError,
    exceptions.UnknownConfigurationKeyError,
    exceptions.InvalidPathError,
    exceptions.NotSupportedError,
    ValueError,
)
_CONFIG_ERRNOS: Final = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.ENAMETOOLONG,
    errno.ELOOP,
}
_OS_ERROR: Final = re.compile(r"\(os error ([0-9]+)\)")


def translate(error: Exception, url: str) -> HoldfastError:
    text = str(error)
    for pattern, remedy in _REMEDIES:
        if pattern.search(text):
            return ConfigError(f"execution logs in {url}: {remedy}")
    problem = f"execution logs in {url}: {_first_line(text)}"
    if isinstance(error, _CONFIG_ERRORS) or _errno(error) in _CONFIG_ERRNOS:
        return ConfigError(problem)
    return Unavailable(problem)


def _errno(error: Exception) -> int | None:
    """The operating system's number, which the library only writes into its text."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    found = _OS_ERROR.search(str(error))
    return int(found[1]) if found else None


def _first_line(text: str) -> str:
    """Without the library's account of its own insides."""
    return text.strip().partition("\n")[0] or "no reason given"
