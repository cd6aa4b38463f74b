"""A job's payload: JSON or raw bytes, immutable, bounded.

JSON is kept as UTF-8 text in the bytes the caller's values encode to; nothing here interprets it. The digest that
says "same payload" is of the canonical form (keys sorted, no white space), so that key order does not matter.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from holdfast.core import limits
from holdfast.core.canonical import canonical
from holdfast.core.errors import Fault, InvalidInput


@dataclass(slots=True, unsafe_hash=True)
class Payload:
    data: bytes
    is_json: bool = True

    @classmethod
    def of(cls, value: Any) -> "Payload":
        """Encode a JSON value; InvalidInput where JSON cannot carry it."""
        try:
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
            return cls(text.encode("utf-8"))
        except UnicodeEncodeError as error:
            raise _invalid(f"has text that is not UTF-8 ({error.reason})") from error
        except (TypeError, ValueError, RecursionError) as error:
            raise _invalid(f"cannot be written as JSON: {error}") from error

    @classmethod
    def of_json_text(cls, text: bytes) -> "Payload":
        """JSON already encoded, as it comes from a wire: checked, kept as it is."""
        try:
            json.loads(text.decode("utf-8"), parse_constant=_refuse_constant)
        except UnicodeDecodeError as error:
            raise _invalid(f"is not UTF-8 at byte {error.start}") from error
        except (ValueError, RecursionError) as error:
            raise _invalid(f"is not JSON: {error}") from error
        return cls(text)

    @classmethod
    def of_bytes(cls, data: bytes) -> "Payload":
        return cls(bytes(data), is_json=False)

    def value(self) -> Any:
        """The JSON value, or the raw bytes."""
        return json.loads(self.data) if self.is_json else self.data

    def digest(self) -> bytes:
        """SHA-256 of the canonical JSON, or of the raw bytes."""
        if not self.is_json:
            return hashlib.sha256(self.data).digest()
        try:
            text = json.dumps(json.loads(self.data), sort_keys=True, separators=(",", ":"))
        except RecursionError:
            text = canonical(self.data.decode("utf-8"))
        # ASCII: JSON can escape what UTF-8 cannot say (half a surrogate pair).
        return hashlib.sha256(text.encode("ascii")).digest()


EMPTY = Payload(b"{}")


def check_limit(limit_bytes: int) -> int:
    """The configured payload limit, refused above the bound."""
    if not 1 <= limit_bytes <= limits.MAX_PAYLOAD_BYTES:
        raise InvalidInput(
            [
                Fault(
                    field="payload_limit_bytes",
                    problem=f"is {limit_bytes}",
                    limit=f"1 … {limits.MAX_PAYLOAD_BYTES} bytes",
                )
            ]
        )
    return limit_bytes


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _invalid(problem: str) -> InvalidInput:
    return InvalidInput([Fault(field="payload", problem=problem)])
