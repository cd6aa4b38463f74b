-- compatible since 0001
-- State is the table a row is in: ready, waiting, running, ended. A job's facts never change and stand in job.
-- Rows that move are narrow; the wide row is written once. Figures: README.md beside this folder.
-- Times are microseconds since 1970 (UTC), ids and tokens 16 bytes. What may be long stands last in its row, so that
-- the columns before it are read without following overflow pages.

CREATE TABLE holdfast_job (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id BLOB NOT NULL UNIQUE,
    type TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 4),
    depth INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    run_at INTEGER,
    max_attempts INTEGER NOT NULL,
    visibility_seconds REAL NOT NULL,
    lifetime_seconds REAL NOT NULL,
    spawned_by INTEGER,
    is_json INTEGER NOT NULL,
    options TEXT,
    payload BLOB NOT NULL
) STRICT;
CREATE INDEX holdfast_job_spawned_by ON holdfast_job (spawned_by) WHERE spawned_by IS NOT NULL;

-- SCHEDULED. claim's ORDER BY is holdfast_ready_claim's order, exactly. Places are numbers of the same row as seq: a new
-- job's place is its seq, whoever comes back takes the next number. So a place is never given twice.
CREATE TABLE holdfast_ready (
    job INTEGER PRIMARY KEY,
    place INTEGER NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    version INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    replays INTEGER NOT NULL,
    is_fragile INTEGER NOT NULL,
    has_dependents INTEGER NOT NULL,
    scheduled_at INTEGER NOT NULL,
    lifetime_ends_at INTEGER NOT NULL,
    started_at INTEGER,
    last_token BLOB
) STRICT;
CREATE INDEX holdfast_ready_claim ON holdfast_ready (queue, priority, place);
CREATE INDEX holdfast_ready_lifetime ON holdfast_ready (lifetime_ends_at);

CREATE TABLE holdfast_waiting (
    job INTEGER PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ({waiting_states})),
    due_at INTEGER,
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    replays INTEGER NOT NULL,
    is_fragile INTEGER NOT NULL,
    has_dependents INTEGER NOT NULL,
    lifetime_ends_at INTEGER NOT NULL,
    scheduled_at INTEGER,
    started_at INTEGER,
    last_token BLOB,
    CHECK ((state = 'PENDING') = (due_at IS NULL))
) STRICT;
CREATE INDEX holdfast_waiting_due ON holdfast_waiting (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX holdfast_waiting_lifetime ON holdfast_waiting (lifetime_ends_at);
CREATE INDEX holdfast_waiting_state ON holdfast_waiting (state, job);

CREATE TABLE holdfast_running (
    job INTEGER PRIMARY KEY,
    token BLOB NOT NULL,
    owner BLOB NOT NULL,
    queue TEXT NOT NULL,
    version INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    replays INTEGER NOT NULL,
    is_fragile INTEGER NOT NULL,
    has_dependents INTEGER NOT NULL,
    cancel_requested INTEGER NOT NULL,
    scheduled_at INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    lifetime_ends_at INTEGER NOT NULL,
    visibility_seconds REAL NOT NULL,
    last_token BLOB
) STRICT;
CREATE INDEX holdfast_running_owner ON holdfast_running (owner, expires_at);

CREATE TABLE holdfast_ended (
    job INTEGER PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ({ended_states})),
    completed_at INTEGER NOT NULL,
    scheduled_at INTEGER,
    started_at INTEGER,
    last_token BLOB,
    owner BLOB,
    version INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    replays INTEGER NOT NULL,
    is_fragile INTEGER NOT NULL,
    has_dependents INTEGER NOT NULL,
    ended_by INTEGER,
    failure TEXT,
    result BLOB
) STRICT;
-- Two, because the two kinds have their own retention: dead jobs never stand before done ones that may go.
CREATE INDEX holdfast_ended_done ON holdfast_ended (completed_at) WHERE state NOT IN ({dead_states});
CREATE INDEX holdfast_ended_dead ON holdfast_ended (completed_at) WHERE state IN ({dead_states});
CREATE INDEX holdfast_ended_seldom ON holdfast_ended (state, job) WHERE state <> 'COMPLETED';

-- child waits for parent; open until what the edge asks for has happened.
CREATE TABLE holdfast_edge (
    child INTEGER NOT NULL,
    parent INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ({dependency_kinds})),
    is_open INTEGER NOT NULL,
    PRIMARY KEY (child, parent)
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_edge_parent ON holdfast_edge (parent);
CREATE INDEX holdfast_edge_open ON holdfast_edge (child) WHERE is_open;

-- Ended jobs whose dependents have not been told.
CREATE TABLE holdfast_mark (job INTEGER PRIMARY KEY) STRICT;

CREATE TABLE holdfast_idempotency (
    job_type TEXT NOT NULL,
    key TEXT NOT NULL,
    job_id BLOB NOT NULL,
    digest BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (job_type, key)
) STRICT;
CREATE INDEX holdfast_idempotency_job ON holdfast_idempotency (job_id);
CREATE INDEX holdfast_idempotency_expires ON holdfast_idempotency (expires_at);

CREATE TABLE holdfast_tag (
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    job INTEGER NOT NULL,
    PRIMARY KEY (name, value, job)
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_tag_job ON holdfast_tag (job);

-- Attempts that were spent without success.
CREATE TABLE holdfast_attempt (
    token BLOB NOT NULL,
    job INTEGER NOT NULL,
    number INTEGER NOT NULL,
    version INTEGER NOT NULL,
    owner BLOB NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    previous BLOB,
    is_ended_by_holder INTEGER NOT NULL,
    failure TEXT NOT NULL,
    PRIMARY KEY (job, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_note (
    job INTEGER PRIMARY KEY,
    percent REAL,
    message TEXT,
    checkpoint BLOB
) STRICT;

CREATE TABLE holdfast_worker (
    id BLOB NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    registered_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    is_lost INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE holdfast_pause (
    queue TEXT NOT NULL PRIMARY KEY,
    paused_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Counts, one row a queue and state, written once a commit. There is one writer at a time: nothing can contend for it.
CREATE TABLE holdfast_tally (
    queue TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ({states})),
    jobs INTEGER NOT NULL,
    PRIMARY KEY (queue, state)
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_beat (
    is_only INTEGER PRIMARY KEY CHECK (is_only = 1),
    last_tick_at INTEGER,
    silence_counts_from INTEGER
) STRICT;
INSERT INTO holdfast_beat (is_only) VALUES (1);

-- So that numbers can be reserved by an UPDATE from the first one on.
INSERT INTO sqlite_sequence (name, seq) VALUES ('holdfast_job', 0);
