"""Bad requests, found before anything is done, the same on every server.

Pure. Each check raises a Refusal with INVALID_ARGUMENT that names the field, what is wrong with it, and what is right.
"""

import re
from collections.abc import Iterable
from typing import Final

from holdfast.rpc import limits
from holdfast.rpc.generated import taskqueue_public_pb2 as public
from holdfast.rpc.refusals import invalid

UUID4: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""The canonical form, in lower case: an ID is compared and hashed as text, so it has one spelling."""
OFFSET: Final = re.compile(r"[0-9]{1,19}")
STATUSES: Final = frozenset(public.JobStatus.values()) - {public.JOB_STATUS_UNSPECIFIED}
SORTS: Final = frozenset(public.JobSort.values())
SHOWN_CHARACTERS: Final = 80

_is_uuid4 = UUID4.fullmatch


def check_job_id(job_id: str) -> str:
    if _is_uuid4(job_id) is None:
        raise invalid(
            f"job_id is {shown(job_id)}, not a UUIDv4 such as 1b4e28ba-2fa1-4d3b-883f-0016d3cca427; "
            "give the one that SubmitJob answered with"
        )
    return job_id


def check_submit(request: public.SubmitJobRequest) -> public.JobSpec:
    """The request's spec."""
    if not request.HasField("spec"):
        raise invalid("spec is missing; give one with a job_type")
    check_client_request_id(request.client_request_id)
    return check_spec(request.spec)


def check_spec(spec: public.JobSpec) -> public.JobSpec:
    if not spec.job_type:
        raise invalid("spec.job_type is empty; name the kind of work")
    check_text("spec.job_type", spec.job_type, limits.MAX_JOB_TYPE_CHARACTERS)
    if spec.labels:
        _check_labels(spec)
    return spec


def _check_labels(spec: public.JobSpec) -> None:
    labels = spec.labels
    if len(labels) > limits.MAX_LABELS:
        raise invalid(f"spec.labels has {len(labels)} entries; at most {limits.MAX_LABELS} are taken")
    for key, value in labels.items():
        if not key:
            raise invalid("spec.labels has an empty key; name it")
        check_text("a key of spec.labels", key, limits.MAX_LABEL_KEY_CHARACTERS)
        check_text(f"spec.labels[{shown(key)}]", value, limits.MAX_LABEL_VALUE_CHARACTERS)


def check_client_request_id(key: str) -> str:
    """Empty is good: then every call is a new job."""
    return check_text("client_request_id", key, limits.MAX_CLIENT_REQUEST_ID_CHARACTERS)


def check_reason(reason: str) -> str:
    return check_text("reason", reason, limits.MAX_REASON_CHARACTERS)


def check_worker_id(worker_id: str) -> str:
    if not worker_id:
        raise invalid("worker_id is empty; name the worker, by $WORKER_ID or its host's name")
    return check_text("worker_id", worker_id, limits.MAX_WORKER_ID_CHARACTERS)


def check_text(field: str, text: str, most_characters: int) -> str:
    if len(text) > most_characters:
        raise invalid(f"{field} has {len(text)} characters; at most {most_characters} are taken")
    if "\0" in text:
        raise invalid(f"{field} contains NUL, which is not text; leave it out")
    return text


def check_page(page: public.PageRequest) -> tuple[int, int]:
    """(offset, size). No size means the default, more than the most means the most; no token means from the start."""
    size = min(page.page_size, limits.PAGE_SIZE_MAX) or limits.PAGE_SIZE_DEFAULT
    token = page.page_token
    if not token:
        return 0, size
    # Not int() alone: it takes "+1", " 1", "1_0" and the digits of other scripts.
    if OFFSET.fullmatch(token) is None or int(token) > limits.MAX_PAGE_OFFSET:
        raise invalid(
            f"page.page_token is {shown(token)}, not a non-negative offset; give the next_page_token of the last "
            "answer, or leave it empty to begin at the start"
        )
    return int(token), size


def check_statuses(field: str, statuses: Iterable[int]) -> frozenset[int]:
    """Empty: all of them."""
    given = frozenset(statuses)
    for status in given:
        check_status(field, status)
    return given


def check_status(field: str, status: int) -> int:
    if status not in STATUSES:
        raise invalid(
            f"{field} is {_name(status)}; give one of {', '.join(_name(known) for known in sorted(STATUSES))}"
        )
    return status


def check_sort(sort: int) -> int:
    """CREATED_AT_DESC or CREATED_AT_ASC: nothing said means the first."""
    if sort not in SORTS:
        raise invalid(f"sort is {sort}; give CREATED_AT_DESC or CREATED_AT_ASC")
    return sort or public.CREATED_AT_DESC


def shown(text: str) -> str:
    """As it can stand in a message: quoted, and cut off where it is long."""
    return repr(text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…")


def _name(status: int) -> str:
    value = public.JobStatus.DESCRIPTOR.values_by_number.get(status)
    return str(status) if value is None else value.name
