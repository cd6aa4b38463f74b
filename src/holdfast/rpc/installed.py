"""Whether the packages of the extra ``grpc`` are there. Imports none of them."""

from importlib.util import find_spec
from typing import Final

from holdfast.core.errors import ConfigError

PACKAGES: Final = ("grpc", "google.protobuf", "grpc_health", "grpc_reflection")


def require_grpc(what: str) -> None:
    """ConfigError with the command that helps; ``what`` needs them."""
    if not all(_is_there(package) for package in PACKAGES):
        raise ConfigError(f"{what} needs more packages; run: pip install 'holdfast[grpc]'")


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the package that it would lie in is missing
        return False
