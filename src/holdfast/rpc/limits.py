"""Every number of the gRPC v1 contract, with its unit in the name.

Those that the frozen contract names have its names. The bounds on texts are ours: the contract has none, and a server
without them keeps whatever it is sent. They are small enough for the durable engine (``core/limits.py``), so that a
request is good on every server or on none.
"""

from typing import Final

# Workers
HEARTBEAT_INTERVAL_MS: Final = 1000
WORKER_TIMEOUT_MS: Final = 4000
TOTAL_WORKER_SLOTS: Final = 6
MAX_REDELIVERIES: Final = 3
"""How often a lost worker's job is handed out again before it is FAILED with WORKER_LOST."""

# Waiting for work
FETCH_HINT_MS: Final = 200
FETCH_HINT_MIN_MS: Final = 50
FETCH_HINT_MAX_MS: Final = 1000
FETCH_WAIT_MS: Final = 1000
"""How long FetchWork may wait for work before it answers with the hint."""
DEQUEUE_WAIT_MS: Final = 700
DEQUEUE_MINIMUM_LEFT_MS: Final = 200
"""A call with less time left gets no job: its answer might not arrive."""

# Output
MAX_OUTPUT_BYTES: Final = 262_144

# Idempotency
MAX_DEDUP_KEYS: Final = 10_000

# Pages
PAGE_SIZE_DEFAULT: Final = 50
PAGE_SIZE_MAX: Final = 200
MAX_PAGE_OFFSET: Final = 2**63 - 1

# Texts
MAX_JOB_TYPE_CHARACTERS: Final = 128
MAX_LABELS: Final = 32
MAX_LABEL_KEY_CHARACTERS: Final = 63
MAX_LABEL_VALUE_CHARACTERS: Final = 128
MAX_CLIENT_REQUEST_ID_CHARACTERS: Final = 256
MAX_REASON_CHARACTERS: Final = 1000
MAX_WORKER_ID_CHARACTERS: Final = 255
MAX_MESSAGE_CHARACTERS: Final = 1000
"""Of what a refusal says: it travels in a header."""

# Deadlines of the public methods, client to server
SUBMIT_JOB_DEADLINE_MS: Final = 3000
CANCEL_JOB_DEADLINE_MS: Final = 3000
GET_JOB_STATUS_DEADLINE_MS: Final = 1000
GET_JOB_RESULT_DEADLINE_MS: Final = 1000
LIST_JOBS_DEADLINE_MS: Final = 1000
PUBLIC_DEADLINES_MS: Final = {
    "SubmitJob": SUBMIT_JOB_DEADLINE_MS,
    "CancelJob": CANCEL_JOB_DEADLINE_MS,
    "GetJobStatus": GET_JOB_STATUS_DEADLINE_MS,
    "GetJobResult": GET_JOB_RESULT_DEADLINE_MS,
    "ListJobs": LIST_JOBS_DEADLINE_MS,
}

# Deadlines between services
INTERNAL_DEADLINE_MS: Final = 1000
FETCH_WORK_DEADLINE_MS: Final = 1500
WORKER_HEARTBEAT_DEADLINE_MS: Final = 1000

# The client's retries
RETRY_INITIAL_DELAY_MS: Final = 100
RETRY_MULTIPLIER: Final = 2.0
RETRY_MAX_DELAY_MS: Final = 1000
RETRY_MAX_ATTEMPTS: Final = 4
"""The first one included."""

# Channels
RECONNECT_INITIAL_MS: Final = 100
RECONNECT_MAX_MS: Final = 1000
"""So that a peer that was restarted is found again soon."""
CONNECT_TIMEOUT_MS: Final = 1000
KEEPALIVE_INTERVAL_MS: Final = 10_000
KEEPALIVE_TIMEOUT_MS: Final = 3000
KEEPALIVE_MIN_INTERVAL_MS: Final = 5000
"""Pings that come faster are refused by a server."""

# Servers
STOP_GRACE_SECONDS: Final = 5.0
"""How long calls that are being served may take when a server stops."""
