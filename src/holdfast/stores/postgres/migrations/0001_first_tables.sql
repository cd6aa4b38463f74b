-- compatible since 0001
-- State is the table a row is in: ready, waiting, running, ended. A job's facts never change and stand in job.
-- Rows that move are narrow; the wide row is written once. Figures: README.md beside this folder.

CREATE SEQUENCE {schema}.job_seq;
CREATE SEQUENCE {schema}.place_seq;

CREATE TABLE {schema}.job (
    seq bigint PRIMARY KEY DEFAULT nextval('{schema}.job_seq'),
    created_at timestamptz NOT NULL,
    run_at timestamptz,
    visibility_seconds double precision NOT NULL,
    lifetime_seconds double precision NOT NULL,
    spawned_by bigint,
    id uuid NOT NULL UNIQUE,
    priority smallint NOT NULL CHECK (priority BETWEEN 0 AND 4),
    depth smallint NOT NULL,
    max_attempts smallint NOT NULL,
    is_json boolean NOT NULL,
    type text NOT NULL,
    queue text NOT NULL,
    payload bytea NOT NULL,
    options text
);
CREATE INDEX job_spawned_by ON {schema}.job (spawned_by) WHERE spawned_by IS NOT NULL;

-- SCHEDULED. claim's ORDER BY is ready_claim's order, exactly.
CREATE TABLE {schema}.ready (
    job bigint PRIMARY KEY,
    place bigint NOT NULL,
    scheduled_at timestamptz NOT NULL,
    lifetime_ends_at timestamptz NOT NULL,
    version int NOT NULL,
    attempt smallint NOT NULL,
    replays smallint NOT NULL,
    priority smallint NOT NULL,
    is_fragile boolean NOT NULL,
    has_dependents boolean NOT NULL,
    queue text NOT NULL,
    started_at timestamptz,
    last_token uuid
);
CREATE INDEX ready_claim ON {schema}.ready (queue, priority, place);
CREATE INDEX ready_lifetime ON {schema}.ready (lifetime_ends_at);

CREATE TABLE {schema}.waiting (
    job bigint PRIMARY KEY,
    due_at timestamptz,
    updated_at timestamptz NOT NULL,
    lifetime_ends_at timestamptz NOT NULL,
    version int NOT NULL,
    attempt smallint NOT NULL,
    replays smallint NOT NULL,
    is_fragile boolean NOT NULL,
    has_dependents boolean NOT NULL,
    state text NOT NULL CONSTRAINT waiting_state CHECK (state IN ({waiting_states})),
    scheduled_at timestamptz,
    started_at timestamptz,
    last_token uuid,
    CHECK ((state = 'PENDING') = (due_at IS NULL))
);
CREATE INDEX waiting_due ON {schema}.waiting (due_at, job) WHERE due_at IS NOT NULL;
CREATE INDEX waiting_lifetime ON {schema}.waiting (lifetime_ends_at);

CREATE TABLE {schema}.running (
    job bigint PRIMARY KEY,
    scheduled_at timestamptz NOT NULL,
    started_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    lifetime_ends_at timestamptz NOT NULL,
    visibility_seconds double precision NOT NULL,
    token uuid NOT NULL,
    owner uuid NOT NULL,
    version int NOT NULL,
    attempt smallint NOT NULL,
    replays smallint NOT NULL,
    is_fragile boolean NOT NULL,
    has_dependents boolean NOT NULL,
    cancel_requested boolean NOT NULL DEFAULT false,
    queue text NOT NULL,
    last_token uuid
);
CREATE INDEX running_owner ON {schema}.running (owner, expires_at);

CREATE TABLE {schema}.ended (
    job bigint PRIMARY KEY,
    completed_at timestamptz NOT NULL,
    scheduled_at timestamptz,
    started_at timestamptz,
    ended_by bigint,
    last_token uuid,
    owner uuid,
    version int NOT NULL,
    attempt smallint NOT NULL,
    replays smallint NOT NULL,
    is_fragile boolean NOT NULL,
    has_dependents boolean NOT NULL,
    state text NOT NULL CONSTRAINT ended_state CHECK (state IN ({ended_states})),
    failure text,
    result bytea
);
-- A row is in one of these two: success and cancellation are kept for another time than the dead.
CREATE INDEX ended_done ON {schema}.ended (completed_at) WHERE state IN ({done_states});
CREATE INDEX ended_dead ON {schema}.ended (completed_at) WHERE state IN ({dead_states});
CREATE INDEX ended_seldom ON {schema}.ended (state, job) WHERE state <> 'COMPLETED';

-- child waits for parent; open until what the edge asks for has happened.
CREATE TABLE {schema}.edge (
    child bigint NOT NULL,
    parent bigint NOT NULL,
    is_open boolean NOT NULL,
    kind text NOT NULL CHECK (kind IN ({dependency_kinds})),
    PRIMARY KEY (child, parent)
);
CREATE INDEX edge_parent ON {schema}.edge (parent);
CREATE INDEX edge_open ON {schema}.edge (child) WHERE is_open;

-- Ended jobs whose dependents have not been told.
CREATE TABLE {schema}.mark (job bigint PRIMARY KEY);

CREATE TABLE {schema}.idempotency (
    job_type text NOT NULL,
    key text NOT NULL,
    job_id uuid NOT NULL,
    digest bytea NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (job_type, key)
);
CREATE INDEX idempotency_job ON {schema}.idempotency (job_id);
CREATE INDEX idempotency_expires ON {schema}.idempotency (expires_at);

CREATE TABLE {schema}.tag (
    name text NOT NULL,
    value text NOT NULL,
    job bigint NOT NULL,
    PRIMARY KEY (name, value, job)
);
CREATE INDEX tag_job ON {schema}.tag (job);

-- Attempts that were spent without success.
CREATE TABLE {schema}.attempt (
    token uuid NOT NULL,
    job bigint NOT NULL,
    number smallint NOT NULL,
    version int NOT NULL,
    owner uuid NOT NULL,
    started_at timestamptz NOT NULL,
    ended_at timestamptz NOT NULL,
    previous uuid,
    is_ended_by_holder boolean NOT NULL,
    failure text NOT NULL,
    PRIMARY KEY (job, version)
);

CREATE TABLE {schema}.note (
    job bigint PRIMARY KEY,
    percent double precision,
    message text,
    checkpoint bytea
);

CREATE TABLE {schema}.worker (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    registered_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    is_lost boolean NOT NULL DEFAULT false
);

CREATE TABLE {schema}.pause (
    queue text PRIMARY KEY,
    paused_at timestamptz NOT NULL
);

-- Counts: every batch appends what it changed, tick adds the rows up. No row here is ever updated.
CREATE TABLE {schema}.tally (
    delta bigint NOT NULL,
    state text NOT NULL,
    queue text NOT NULL
);

CREATE TABLE {schema}.beat (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    last_tick_at timestamptz,
    silence_counts_from timestamptz
);
INSERT INTO {schema}.beat DEFAULT VALUES;

-- Rows live for seconds here: vacuum by number of dead rows, not by share of the table.
ALTER TABLE {schema}.ready SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
ALTER TABLE {schema}.running SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
ALTER TABLE {schema}.waiting SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
ALTER TABLE {schema}.tally SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
