"""Who may call what: the contract's matrix. A caller names itself in its call's metadata.

Who is not in a method's set is refused by the server before its request is looked at (SERVING-2). Two entries
of the matrix depend on the request too: a gateway moves statuses and stores envelopes only to cancel a queued job.
"""

from typing import Final

from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from holdfast.rpc.generated import taskqueue_public_pb2 as public
from holdfast.rpc.refusals import denied
from holdfast.rpc.serving import CLIENT

GATEWAY: Final = "gateway"
COORDINATOR: Final = "coordinator"
WORKER: Final = "worker"
NODE: Final = "node"
"""A node of Design B that forwards a client's call."""

Allowed = dict[str, frozenset[str]]

_CLIENT: Final = frozenset({CLIENT})
_CLIENT_OR_NODE: Final = frozenset({CLIENT, NODE})
_GATEWAY: Final = frozenset({GATEWAY})
_COORDINATOR: Final = frozenset({COORDINATOR})
_WORKER: Final = frozenset({WORKER})
_BOTH: Final = frozenset({GATEWAY, COORDINATOR})

PUBLIC_METHODS: Final = ("SubmitJob", "GetJobStatus", "GetJobResult", "CancelJob", "ListJobs")

GATEWAY_SERVICE: Final[Allowed] = dict.fromkeys(PUBLIC_METHODS, _CLIENT)
NODE_SERVICE: Final[Allowed] = dict.fromkeys(PUBLIC_METHODS, _CLIENT_OR_NODE)
JOB_SERVICE: Final[Allowed] = {
    "CreateJob": _GATEWAY,
    "DeleteJobIfStatus": _GATEWAY,
    "GetJobRecord": _BOTH,
    "ListJobRecords": _GATEWAY,
    "TransitionJobStatus": _BOTH,
    "SetCancelRequested": _GATEWAY,
}
QUEUE_SERVICE: Final[Allowed] = {
    "EnqueueJob": _GATEWAY,
    "DequeueJob": _COORDINATOR,
    "RemoveJobIfPresent": _BOTH,
}
COORDINATOR_SERVICE: Final[Allowed] = {
    "WorkerHeartbeat": _WORKER,
    "FetchWork": _WORKER,
    "ReportWorkOutcome": _WORKER,
}
RESULT_SERVICE: Final[Allowed] = {
    "StoreResult": _BOTH,
    "GetResult": _GATEWAY,
}


def check_transition(caller: str, request: internal.TransitionJobStatusRequest) -> None:
    if caller == GATEWAY and (request.expected_from_status, request.to_status) != (public.QUEUED, public.CANCELED):
        raise denied("a gateway may only move QUEUED → CANCELED; the other moves are the coordinator's")


def check_store(caller: str, request: internal.StoreResultRequest) -> None:
    if caller == GATEWAY and request.terminal_status != public.CANCELED:
        raise denied("a gateway may only store the CANCELED envelope of a queued job; others are the coordinator's")
