"""Every default and every bound, with its unit in the name.

A number that a user can meet stands here and nowhere else; the reference documentation lists this module.
"""

from typing import Final

# Identity and labels
MAX_TYPE_CHARACTERS: Final = 255
MAX_QUEUE_CHARACTERS: Final = 255
DEFAULT_QUEUE: Final = "default"
MAX_KEY_CHARACTERS: Final = 256
"""The key as stored. A batch key is given its ``#index`` suffix first, a workflow key its ``#node``."""
DEFAULT_KEY_WINDOW_SECONDS: Final = 24 * 3600.0
MAX_KEY_WINDOW_SECONDS: Final = 30 * 24 * 3600.0
MAX_TAGS: Final = 64
MAX_TAG_CHARACTERS: Final = 255
MAX_CORRELATION_ID_CHARACTERS: Final = 255
MAX_GROUP_CHARACTERS: Final = 255
MAX_CALLBACK_URL_CHARACTERS: Final = 2048

# Payload and result
DEFAULT_PAYLOAD_BYTES: Final = 1_000_000
MAX_PAYLOAD_BYTES: Final = 16_000_000
DEFAULT_RESULT_BYTES: Final = 1024 * 1024
MAX_RESULT_BYTES: Final = 16 * 1024 * 1024
MAX_CHECKPOINT_BYTES: Final = 1024 * 1024
MAX_PROGRESS_MESSAGE_CHARACTERS: Final = 1000
MAX_ERROR_MESSAGE_CHARACTERS: Final = 10_000
MAX_ERROR_TRACE_CHARACTERS: Final = 50_000

# Timeouts
DEFAULT_EXECUTION_SECONDS: Final = 30 * 60.0
DEFAULT_VISIBILITY_SECONDS: Final = 5 * 60.0
DEFAULT_LIFETIME_SECONDS: Final = 7 * 24 * 3600.0
DEFAULT_SUBMISSION_SECONDS: Final = 30.0
MAX_TIMEOUT_SECONDS: Final = 10 * 365 * 24 * 3600.0
MAX_DELAY_SECONDS: Final = MAX_TIMEOUT_SECONDS

# Retries
DEFAULT_MAX_ATTEMPTS: Final = 3
MAX_ATTEMPTS: Final = 1000
DEFAULT_INITIAL_DELAY_SECONDS: Final = 1.0
DEFAULT_MAX_DELAY_SECONDS: Final = 3600.0
DEFAULT_MULTIPLIER: Final = 2.0
PROPORTIONAL_JITTER: Final = 0.1
"""±10 % of the delay."""

# Dependencies
MAX_DEPENDENCY_DEPTH: Final = 100
MAX_DEPENDENCIES: Final = 1000
MAX_SPAWNED: Final = 1000

# Batches
MAX_SUBMIT_JOBS: Final = 10_000
MAX_CLAIM_JOBS: Final = 1000
MAX_CLAIM_QUEUES: Final = 10_000
MAX_SETTLE_JOBS: Final = 10_000
MAX_PAGE_JOBS: Final = 1000
DEFAULT_PAGE_JOBS: Final = 50
SCAN_BUDGET_JOBS: Final = 50_000
"""How many jobs one page of a filtered list looks at before it hands back a cursor to go on from."""
MAX_PLACE_JOBS: Final = 10_000
"""How far the jobs before another one are counted."""
EXAMINED_JOBS: Final = 100_000
"""How many of the newest rows of a table an examination walks over, unless it is a deep one."""
MAX_OVERDUE_JOBS: Final = 1000
"""How many jobs that are past their time one look names."""
TICK_BATCH_JOBS: Final = 1000
MAX_TICK_JOBS: Final = 10_000

# Workers
DEFAULT_CONCURRENCY: Final = 10
MAX_CONCURRENCY: Final = 10_000
DEFAULT_GRACE_SECONDS: Final = 30.0
SHORT_GRACE_SECONDS: Final = 5.0
"""The same where somebody waits for it: ``dev``, a reload, a gRPC server."""
POLL_SECONDS: Final = 5.0
"""How long a worker sleeps at the most when nothing wakes it."""
TICK_SECONDS: Final = 1.0
HEARTBEAT_SECONDS: Final = 5.0
WORKER_TIMEOUT_SECONDS: Final = 15.0
EXTEND_AFTER_FRACTION: Final = 1 / 3
"""A lease is extended by the first heartbeat after this part of its visibility timeout has passed."""
MAX_WORKER_NAME_CHARACTERS: Final = 255
MAX_WORKER_QUEUES: Final = MAX_CLAIM_QUEUES
MAX_WORKER_TYPES: Final = 10_000
UNKNOWN_TYPE_DELAY_SECONDS: Final = 30.0

# Connections
DEFAULT_POOL_CONNECTIONS: Final = 10
MAX_POOL_CONNECTIONS: Final = 1000

# API keys
MAX_API_KEY_NAME_CHARACTERS: Final = 255
MAX_API_KEY_SECONDS: Final = MAX_TIMEOUT_SECONDS

# Periodic jobs
MAX_CRON_NAME_CHARACTERS: Final = 255
MAX_FIRES: Final = 1000
MAX_CRON_WAIT_SECONDS: Final = 60.0
"""How long a scheduler sleeps at the most: a clock that is put right is noticed after that time."""
MIN_CRON_WAIT_SECONDS: Final = 0.05

# Retention, counted from completed_at and never shorter than the idempotency window
DEFAULT_COMPLETED_RETENTION_SECONDS: Final = 7 * 24 * 3600.0
DEFAULT_DEAD_RETENTION_SECONDS: Final = 30 * 24 * 3600.0
WORKER_RETENTION_SECONDS: Final = 24 * 3600.0
"""How long a worker that is gone can still be asked about."""
CRON_RETENTION_SECONDS: Final = 7 * 24 * 3600.0
"""Of fired slots; the newest of each name stays for ever."""
