CREATE SCHEMA holdfast;
CREATE TABLE holdfast.api_key (
    id uuid NOT NULL,
    name text NOT NULL,
    scopes text[] NOT NULL,
    digest bytea NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    CONSTRAINT api_key_digest_check CHECK ((length(digest) = 32))
);
CREATE TABLE holdfast.attempt (
    token uuid NOT NULL,
    job bigint NOT NULL,
    number smallint NOT NULL,
    version integer NOT NULL,
    owner uuid NOT NULL,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone NOT NULL,
    previous uuid,
    is_ended_by_holder boolean NOT NULL,
    failure text NOT NULL
);
CREATE TABLE holdfast.beat (
    is_only boolean DEFAULT true NOT NULL,
    last_tick_at timestamp with time zone,
    silence_counts_from timestamp with time zone,
    CONSTRAINT beat_is_only_check CHECK (is_only)
);
CREATE TABLE holdfast.cron_slot (
    name text NOT NULL,
    slot timestamp with time zone NOT NULL,
    fired_at timestamp with time zone NOT NULL,
    job_id uuid
);
CREATE TABLE holdfast.edge (
    child bigint NOT NULL,
    parent bigint NOT NULL,
    is_open boolean NOT NULL,
    kind text NOT NULL,
    CONSTRAINT edge_kind_check CHECK ((kind = ANY (ARRAY['AFTER'::text, 'AFTER_ANY'::text, 'CHAIN'::text, 'FAN_OUT'::text, 'FAN_IN'::text])))
);
CREATE TABLE holdfast.ended (
    job bigint NOT NULL,
    completed_at timestamp with time zone NOT NULL,
    scheduled_at timestamp with time zone,
    started_at timestamp with time zone,
    ended_by bigint,
    last_token uuid,
    owner uuid,
    version integer NOT NULL,
    attempt smallint NOT NULL,
    replays smallint NOT NULL,
    is_fragile boolean NOT NULL,
    has_dependents boolean NOT NULL,
    state text NOT NULL,
    failure text,
    result bytea,
    CONSTRAINT ended_state CHECK ((state = ANY (ARRAY['COMPLETED'::text, 'FAILED'::text, 'DEAD_LETTER'::text, 'CANCELLED'::text])))
);
CREATE TABLE holdfast.idempotency (
    job_type text NOT NULL,
    key text NOT NULL,
    job_id uuid NOT NULL,
    digest bytea NOT NULL,
    expires_at timestamp with time zone NOT NULL
);
CREATE SEQUENCE holdfast.job_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE holdfast.job (
    seq bigint DEFAULT nextval('holdfast.job_seq'::regclass) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    run_at timestamp with time zone,
    visibility_seconds double precision NOT NULL,
    lifetime_seconds double precision NOT NULL,
    spawned_by bigint,
    id uuid NOT NULL,
    priority smallint NOT NULL,
    depth smallint NOT NULL,
    max_attempts smallint NOT NULL,
    is_json boolean NOT NULL,
    type text NOT NULL,
    queue text NOT NULL,
    payload bytea NOT NULL,
    options text,
    CONSTRAINT job_priority_check CHECK (((priority >= 0) AND (priority <= 4)))
);
CREATE TABLE holdfast.mark (
    job bigint NOT NULL
);
CREATE TABLE holdfast.note (
    job bigint NOT NULL,
    percent double precision,
    message text,
    checkpoint bytea
);
CREATE TABLE holdfast.pause (
    queue text NOT NULL,
    paused_at timestamp with time zone NOT NULL
);
CREATE TABLE holdfast.ready (
    job bigint NOT NULL,
    place bigint NOT NULL,
    scheduled_at timestamp with time zone NOT NULL,
    lifetime_ends_at timestamp with time zone NOT NULL,
    version integer NOT NULL,
    attempt smallint NOT NULL,
    replays smallint NOT NULL,
    priority smallint NOT NULL,
    is_fragile boolean NOT NULL,
    has_dependents boolean NOT NULL,
    queue text NOT NULL,
    started_at timestamp with time zone,
    last_token uuid
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='1000');
CREATE TABLE holdfast.running (
    job bigint NOT NULL,
    scheduled_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    lifetime_ends_at timestamp with time zone NOT NULL,
    visibility_seconds double precision NOT NULL,
    token uuid NOT NULL,
    owner uuid NOT NULL,
    version integer NOT NULL,
    attempt smallint NOT NULL,
    replays smallint NOT NULL,
    is_fragile boolean NOT NULL,
    has_dependents boolean NOT NULL,
    cancel_requested boolean DEFAULT false NOT NULL,
    queue text NOT NULL,
    last_token uuid
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='1000');
CREATE TABLE holdfast.schema_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE holdfast.tag (
    name text NOT NULL,
    value text NOT NULL,
    job bigint NOT NULL
);
CREATE TABLE holdfast.tally (
    delta bigint NOT NULL,
    state text NOT NULL,
    queue text NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='1000');
CREATE TABLE holdfast.waiting (
    job bigint NOT NULL,
    due_at timestamp with time zone,
    updated_at timestamp with time zone NOT NULL,
    lifetime_ends_at timestamp with time zone NOT NULL,
    version integer NOT NULL,
    attempt smallint NOT NULL,
    replays smallint NOT NULL,
    is_fragile boolean NOT NULL,
    has_dependents boolean NOT NULL,
    state text NOT NULL,
    scheduled_at timestamp with time zone,
    started_at timestamp with time zone,
    last_token uuid,
    CONSTRAINT waiting_check CHECK (((state = 'PENDING'::text) = (due_at IS NULL))),
    CONSTRAINT waiting_state CHECK ((state = ANY (ARRAY['PENDING'::text, 'DELAYED'::text, 'RETRYING'::text])))
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='1000');
CREATE TABLE holdfast.worker (
    id uuid NOT NULL,
    name text NOT NULL,
    registered_at timestamp with time zone NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    is_lost boolean DEFAULT false NOT NULL,
    queues text[] DEFAULT '{}'::text[] NOT NULL,
    types text[] DEFAULT '{}'::text[] NOT NULL
);
INSERT INTO holdfast.api_key VALUES ('1eaa098f-8008-52d6-8273-ff6620084e00', 'ci', '{read}', '\x0000000000000000000000000000000000000000000000000000000000000037', '2100-01-01 00:01:00+00', NULL, NULL);
INSERT INTO holdfast.api_key VALUES ('32f59c10-d13c-5cc5-aa63-6e3a6344ad3b', 'old', '{read}', '\x0000000000000000000000000000000000000000000000000000000000000037', '2100-01-01 00:01:00+00', NULL, '2100-01-01 00:01:00+00');
INSERT INTO holdfast.attempt VALUES ('8a1ccb45-f9d1-588d-aeb8-11cb7e360000', 2, 1, 1, '85b89bee-d2f4-51f9-aba6-a13fed62f737', '2100-01-01 00:00:00+00', '2100-01-01 00:00:20+00', NULL, false, '{"category": "SYSTEM", "message": "the worker stopped answering", "code": "worker_lost"}');
INSERT INTO holdfast.attempt VALUES ('cc5b6bd7-a83f-5ba4-bd1e-1207db360000', 14, 1, 1, '894ac980-54c5-5ea7-957a-0778060333bc', '2100-01-01 00:01:00+00', '2100-01-01 00:01:00+00', NULL, true, '{"category": "TEMPORARY", "message": "the service is away", "error_type": "ServiceError"}');
INSERT INTO holdfast.attempt VALUES ('0cbcf898-6358-59e5-b795-cdfb120e0000', 18, 1, 1, '894ac980-54c5-5ea7-957a-0778060333bc', '2100-01-01 00:01:00+00', '2100-01-01 00:01:00+00', NULL, true, '{"category": "PERMANENT", "message": "no such customer", "error_type": "LookupError"}');
INSERT INTO holdfast.attempt VALUES ('b9f25432-5908-5460-8b94-3f3609570000', 19, 1, 1, '894ac980-54c5-5ea7-957a-0778060333bc', '2100-01-01 00:01:00+00', '2100-01-01 00:01:00+00', NULL, true, '{"category": "TEMPORARY", "message": "the service is away", "error_type": "ServiceError"}');
INSERT INTO holdfast.attempt VALUES ('fdba3267-5e7a-5d73-92c1-268c45d70000', 20, 1, 1, '894ac980-54c5-5ea7-957a-0778060333bc', '2100-01-01 00:01:00+00', '2100-01-01 00:01:00+00', NULL, true, '{"category": "PERMANENT", "message": "no such customer", "error_type": "LookupError"}');
INSERT INTO holdfast.attempt VALUES ('791f9d67-70a0-512c-9d1b-f13aec640000', 24, 1, 1, '894ac980-54c5-5ea7-957a-0778060333bc', '2100-01-01 00:01:00+00', '2100-01-01 00:01:00+00', NULL, true, '{"category": "CANCELLED", "message": "cancelled", "code": "cancelled"}');
INSERT INTO holdfast.beat VALUES (true, '2100-01-01 00:01:00+00', '2100-01-01 00:00:20+00');
INSERT INTO holdfast.cron_slot VALUES ('weekly', '2100-01-01 00:01:00+00', '2100-01-01 00:01:00+00', NULL);
INSERT INTO holdfast.cron_slot VALUES ('nightly', '2100-01-01 00:01:00+00', '2100-01-01 00:01:00+00', '00a48379-f55b-5623-84cf-2210e56c0434');
INSERT INTO holdfast.edge VALUES (11, 4, true, 'AFTER');
INSERT INTO holdfast.edge VALUES (11, 5, true, 'AFTER');
INSERT INTO holdfast.edge VALUES (12, 9, true, 'AFTER_ANY');
INSERT INTO holdfast.edge VALUES (12, 4, true, 'AFTER_ANY');
INSERT INTO holdfast.edge VALUES (13, 11, true, 'CHAIN');
INSERT INTO holdfast.edge VALUES (23, 22, false, 'CHAIN');
INSERT INTO holdfast.edge VALUES (29, 28, true, 'AFTER');
INSERT INTO holdfast.edge VALUES (34, 33, true, 'AFTER');
INSERT INTO holdfast.ended VALUES (15, '2100-01-01 00:01:00+00', '2100-01-01 00:01:00+00', '2100-01-01 00:01:00+00', NULL, 'aac29e22-5134-5ae5-8c04-ef3db1790000', '894ac980-54c5-5ea7-957a-0778060333bc', 1, 1, 0, false, false, 'COMPLETED', NULL, '\x7b22746f74616c223a20337d');
INSERT INTO holdfast.ended VALUES (18, '2100-01-01 00:01:00+00', '2100-01-01 00:01:00+00', '2100-01-01 00:01:00+00', NULL, '0cbcf898-6358-59e5-b795-cdfb120e0000', '894ac980-54c5-5ea7-957a-0778060333bc', 1, 1, 0, false, false, 'FAILED', '{"category": "PERMANENT", "message": "no such customer", "error_type": "LookupError"}', NULL);
INSERT INTO holdfast.ended VALUES (19, '2100-01-01 00:01:00+00', '2100-01-01 00:01:00+00', '2100-01-01 00:01:00+00', NULL, 'b9f25432-5908-5460-8b94-3f3609570000', '894ac980-54c5-5ea7-957a-0778060333bc', 1, 1, 0, false, false, 'DEAD_LETTER', '{"category": "TEMPORARY", "message": "the service is away", "error_type": "ServiceError"}', NULL);
INSERT INTO holdfast.ended VALUES (22, '2100-01-01 00:01:00+00', '2100-01-01 00:01:00+00', NULL, NULL, NULL, NULL, 0, 0, 0, false, true, 'CANCELLED', '{"category": "CANCELLED", "message": "cancelled", "code": "cancelled"}', NULL);
INSERT INTO holdfast.ended VALUES (23, '2100-01-01 00:01:00+00', NULL, NULL, 22, NULL, NULL, 0, 0, 0, false, false, 'CANCELLED', '{"category": "CANCELLED", "message": "its dependency c1b7e43f-76d8-58c8-b4a2-41ab26c0b8e0 ended in CANCELLED", "code": "dependency"}', NULL);
INSERT INTO holdfast.ended VALUES (24, '2100-01-01 00:01:00+00', '2100-01-01 00:01:00+00', '2100-01-01 00:01:00+00', NULL, '791f9d67-70a0-512c-9d1b-f13aec640000', '894ac980-54c5-5ea7-957a-0778060333bc', 1, 1, 0, false, false, 'CANCELLED', '{"category": "CANCELLED", "message": "cancelled", "code": "cancelled"}', NULL);
INSERT INTO holdfast.ended VALUES (33, '2100-01-01 00:01:00+00', '2100-01-01 00:01:00+00', '2100-01-01 00:01:00+00', NULL, 'a0e69c74-ac1b-5acb-98b7-6060bbc20000', '894ac980-54c5-5ea7-957a-0778060333bc', 1, 1, 0, false, true, 'COMPLETED', NULL, '\x226c61746522');
INSERT INTO holdfast.idempotency VALUES ('resize', 'order-1', '3e9e5c72-98ec-523b-9a64-0e7685280d10', '\x06eb7d6a69ee19e5fbdf749018d3d2abfa04bcbd1365db312eb86dc7169389b8', '2100-01-02 00:01:00+00');
INSERT INTO holdfast.idempotency VALUES ('example', 'order-2', '5e4951b4-932f-579a-a80f-061ff3c85370', '\x363379742f80b51bdb9206579af7754911543079b9399cb3fc315fb199f476e8', '2100-01-02 00:01:00+00');
INSERT INTO holdfast.job VALUES (2, '2100-01-01 00:00:00+00', NULL, 300, 604800, NULL, '7e3a2895-cc58-55be-a52e-b00d9eddc064', 2, 0, 3, true, 'example', 'reclaimed', '\x7b7d', NULL);
INSERT INTO holdfast.job VALUES (4, '2100-01-01 00:01:00+00', NULL, 300, 604800, NULL, 'd35a964b-f75d-553f-82d8-f367540be658', 2, 0, 3, true, 'example', 'default', '\x7b226e223a20317d', NULL);
INSERT INTO holdfast.job VALUES (5, '2100-01-01 00:01:00+00', NULL, 90, 2592000, NULL, '3e9e5c72-98ec-523b-9a64-0e7685280d10', 1, 0, 9, false, 'resize', 'media', '\x00ff', '{"execution_seconds":7.0,"retry":{"strategy":"constant","initial_delay":2.5,"on":["TIMEOUT"]},"tags":{"customer":"17","Stadt":"Köln"},"correlation_id":"request-1","callback_url":"https://example.org/done","key":"order-1"}');
INSERT INTO holdfast.job VALUES (7, '2100-01-01 00:01:00+00', NULL, 300, 604800, NULL, '5e4951b4-932f-579a-a80f-061ff3c85370', 2, 0, 3, true, 'example', 'with a key', '\x7b226e223a20327d', '{"key":"order-2"}');
INSERT INTO holdfast.job VALUES (9, '2100-01-01 00:01:00+00', '2100-01-01 01:01:00+00', 300, 604800, NULL, '990e7cf4-faaf-51f6-b999-c95bba16b9b4', 2, 0, 3, true, 'example', 'delayed', '\x7b7d', NULL);
INSERT INTO holdfast.job VALUES (10, '2100-01-01 00:01:00+00', '2100-01-01 02:00:00+00', 300, 604800, NULL, 'd2ae56e4-f719-56eb-8a10-b10fc9a717c0', 2, 0, 3, true, 'example', 'delayed until', '\x7b7d', NULL);
INSERT INTO holdfast.job VALUES (11, '2100-01-01 00:01:00+00', NULL, 300, 604800, NULL, '034969e9-16f2-5a56-b66b-51a6841e9674', 1, 1, 3, true, 'example', 'pending', '\x7b7d', NULL);
INSERT INTO holdfast.job VALUES (12, '2100-01-01 00:01:00+00', NULL, 300, 604800, NULL, 'cfa9e4a6-b1ac-5b50-a879-2442445a57c7', 2, 1, 3, true, 'example', 'pending for any', '\x7b7d', '{"tags":{"customer":"18"}}');
INSERT INTO holdfast.job VALUES (13, '2100-01-01 00:01:00+00', NULL, 300, 604800, NULL, '22a4ab8c-3513-545e-ba8e-c8bd83d8b5b1', 1, 2, 3, true, 'example', 'pending in a chain', '\x7b7d', NULL);
INSERT INTO holdfast.job VALUES (14, '2100-01-01 00:01:00+00', NULL, 300, 604800, NULL, '5aa345f5-d2d3-5cf9-9638-a9a5a10e452e', 2, 0, 3, true, 'example', 'retrying', '\x7b7d', NULL);
INSERT INTO holdfast.job VALUES (15, '2100-01-01 00:01:00+00', NULL, 300, 604800, NULL, 'beaae4c0-43b6-57ba-a079-3e5e8e03a245', 2, 0, 3, true, 'example', 'completed', '\x7b7d', NULL);
INSERT INTO holdfast.job VALUES (16, '2100-01-01 00:01:00+00', NULL, 300, 604800, 15, 'e2bf3c0d-9d75-5e4d-bad1-8ded85d56dcb', 2, 1, 3, true, 'example', 'spawned', '\x7b7d', NULL);
INSERT INTO holdfast.job VALUES (18, '2100-01-01 00:01:00+00', NULL, 300, 604800, NULL, 'bb8ee5ea-6f6d-58d7-a408-b773aff7366a', 2, 0, 3, true, 'example', 'failed', '\x7b7d', NULL);
INSERT INTO holdfast.job VALUES (19, '2100-01-01 00:01:00+00', NULL, 300, 604800, NULL, '2140ba32-d86e-5473-99e0-e28c969cc715', 2, 0, 1, true, 'example', 'dead', '\x7b7d', NULL);
INSERT INTO holdfast.job VALUES (20, '2100-01-01 00:01:00+00', NULL, 300, 604800, NULL, 'cba9b97a-6fd0-5a09-9493-2676675b1197', 2, 0, 3, true, 'example', 'replayed', '\x7b7d', NULL);
INSERT INTO holdfast.job VALUES (22, '2100-01-01 00:01:00+00', NULL, 300, 604800, NULL, 'c1b7e43f-76d8-58c8-b4a2-41ab26c0b8e0', 2, 0, 3, true, 'example', 'cancelled', '\x7b7d', NULL);
INSERT INTO holdfast.job VALUES (23, '2100-01-01 00:01:00+00', NULL, 300, 604800, NULL, 'e690e610-9906-5a6c-8a66-4ac761cc08fe', 2, 1, 3, true, 'example', 'ended by its dependency', '\x7b7d', NULL);
INSERT INTO holdfast.job VALUES (24, '2100-01-01 00:01:00+00', NULL, 300, 604800, NULL, '24bd6968-d99c-59b3-9eb2-3cd49dde36e1', 2, 0, 3, true, 'example', 'stopped', '\x7b7d', NULL);
INSERT INTO holdfast.job VALUES (25, '2100-01-01 00:01:00+00', NULL, 300, 604800, NULL, 'b1bd2403-31ad-59cc-a7ba-0ee60a5ee2dc', 2, 0, 3, true, 'example', 'running', '\x7b7d', NULL);
INSERT INTO holdfast.job VALUES (26, '2100-01-01 00:01:00+00', NULL, 300, 604800, NULL, 'f61c2407-3964-59ef-bc8f-9cc9cefd0b6a', 2, 0, 3, true, 'example', 'running with a note', '\x7b7d', NULL);
INSERT INTO holdfast.job VALUES (27, '2100-01-01 00:01:00+00', NULL, 300, 604800, NULL, '7e6dd5b8-f63e-55f9-b749-018cb25e9cc0', 2, 0, 3, true, 'example', 'running, to be cancelled', '\x7b7d', NULL);
INSERT INTO holdfast.job VALUES (28, '2100-01-01 00:01:00+00', NULL, 300, 604800, NULL, '33f8789c-3e9d-5f52-887e-26a0ffcf2c59', 2, 0, 3, true, 'example', 'running, waited for', '\x7b7d', NULL);
INSERT INTO holdfast.job VALUES (29, '2100-01-01 00:01:00+00', NULL, 300, 604800, NULL, '907ee673-dda3-5308-9227-6771d8dfad31', 2, 1, 3, true, 'example', 'pending behind a lease', '\x7b7d', NULL);
INSERT INTO holdfast.job VALUES (30, '2100-01-01 00:01:00+00', NULL, 300, 604800, NULL, '88c1b207-3437-5c35-87fc-9633a9a37084', 2, 0, 3, true, 'example', 'paused', '\x7b7d', NULL);
INSERT INTO holdfast.job VALUES (31, '2100-01-01 00:01:00+00', NULL, 300, 604800, NULL, '00a48379-f55b-5623-84cf-2210e56c0434', 2, 0, 3, true, 'report', 'nightly', '\x7b7d', NULL);
INSERT INTO holdfast.job VALUES (33, '2100-01-01 00:01:00+00', NULL, 300, 604800, NULL, '3a618eb4-e468-51e9-b7ee-c624232ec13b', 2, 0, 3, true, 'example', 'ended, untold', '\x7b7d', NULL);
INSERT INTO holdfast.job VALUES (34, '2100-01-01 00:01:00+00', NULL, 300, 604800, NULL, 'b4903d08-50d3-59e8-bc4b-75e98e03fe99', 2, 1, 3, true, 'example', 'pending, untold', '\x7b7d', NULL);
INSERT INTO holdfast.mark VALUES (33);
INSERT INTO holdfast.note VALUES (26, 40, 'half', '\x706167652034');
INSERT INTO holdfast.pause VALUES ('paused', '2100-01-01 00:01:00+00');
INSERT INTO holdfast.ready VALUES (2, 3, '2100-01-01 00:00:20+00', '2100-01-08 00:00:00+00', 1, 1, 0, 2, true, false, 'reclaimed', '2100-01-01 00:00:00+00', '8a1ccb45-f9d1-588d-aeb8-11cb7e360000');
INSERT INTO holdfast.ready VALUES (7, 8, '2100-01-01 00:01:00+00', '2100-01-08 00:01:00+00', 0, 0, 0, 2, false, false, 'with a key', NULL, NULL);
INSERT INTO holdfast.ready VALUES (4, 4, '2100-01-01 00:01:00+00', '2100-01-08 00:01:00+00', 0, 0, 0, 2, false, true, 'default', NULL, NULL);
INSERT INTO holdfast.ready VALUES (5, 6, '2100-01-01 00:01:00+00', '2100-01-31 00:01:00+00', 0, 0, 0, 1, false, true, 'media', NULL, NULL);
INSERT INTO holdfast.ready VALUES (16, 17, '2100-01-01 00:01:00+00', '2100-01-08 00:01:00+00', 0, 0, 0, 2, false, false, 'spawned', NULL, NULL);
INSERT INTO holdfast.ready VALUES (20, 21, '2100-01-01 00:01:00+00', '2100-01-08 00:01:00+00', 1, 0, 1, 2, false, false, 'replayed', NULL, 'fdba3267-5e7a-5d73-92c1-268c45d70000');
INSERT INTO holdfast.ready VALUES (30, 30, '2100-01-01 00:01:00+00', '2100-01-08 00:01:00+00', 0, 0, 0, 2, false, false, 'paused', NULL, NULL);
INSERT INTO holdfast.ready VALUES (31, 32, '2100-01-01 00:01:00+00', '2100-01-08 00:01:00+00', 0, 0, 0, 2, false, false, 'nightly', NULL, NULL);
INSERT INTO holdfast.running VALUES (25, '2100-01-01 00:01:00+00', '2100-01-01 00:01:00+00', '2100-01-01 00:06:00+00', '2100-01-08 00:01:00+00', 300, '2a4fb64e-6954-5b79-b55f-75fa35c60000', '894ac980-54c5-5ea7-957a-0778060333bc', 1, 1, 0, false, false, false, 'running', NULL);
INSERT INTO holdfast.running VALUES (26, '2100-01-01 00:01:00+00', '2100-01-01 00:01:00+00', '2100-01-01 00:06:00+00', '2100-01-08 00:01:00+00', 300, '81dd37dd-68b5-54ff-b556-1ed88f450000', '894ac980-54c5-5ea7-957a-0778060333bc', 1, 1, 0, false, false, false, 'running with a note', NULL);
INSERT INTO holdfast.running VALUES (27, '2100-01-01 00:01:00+00', '2100-01-01 00:01:00+00', '2100-01-01 00:06:00+00', '2100-01-08 00:01:00+00', 300, '1da88929-b295-5e31-ad6f-a29feb950000', '894ac980-54c5-5ea7-957a-0778060333bc', 1, 1, 0, false, false, true, 'running, to be cancelled', NULL);
INSERT INTO holdfast.running VALUES (28, '2100-01-01 00:01:00+00', '2100-01-01 00:01:00+00', '2100-01-01 00:06:00+00', '2100-01-08 00:01:00+00', 300, '542e1bb3-88a8-5b6c-8ea9-f959358b0000', '894ac980-54c5-5ea7-957a-0778060333bc', 1, 1, 0, false, true, false, 'running, waited for', NULL);
INSERT INTO holdfast.schema_version VALUES ('0004');
INSERT INTO holdfast.tag VALUES ('customer', '17', 5);
INSERT INTO holdfast.tag VALUES ('Stadt', 'Köln', 5);
INSERT INTO holdfast.tag VALUES ('customer', '18', 12);
INSERT INTO holdfast.tally VALUES (1, 'SCHEDULED', 'reclaimed');
INSERT INTO holdfast.tally VALUES (-1, 'SCHEDULED', 'reclaimed');
INSERT INTO holdfast.tally VALUES (1, 'RUNNING', 'reclaimed');
INSERT INTO holdfast.tally VALUES (-1, 'RUNNING', 'reclaimed');
INSERT INTO holdfast.tally VALUES (1, 'SCHEDULED', 'reclaimed');
INSERT INTO holdfast.tally VALUES (1, 'SCHEDULED', 'default');
INSERT INTO holdfast.tally VALUES (1, 'SCHEDULED', 'media');
INSERT INTO holdfast.tally VALUES (1, 'SCHEDULED', 'with a key');
INSERT INTO holdfast.tally VALUES (1, 'DELAYED', 'delayed');
INSERT INTO holdfast.tally VALUES (1, 'DELAYED', 'delayed until');
INSERT INTO holdfast.tally VALUES (1, 'PENDING', 'pending');
INSERT INTO holdfast.tally VALUES (1, 'PENDING', 'pending for any');
INSERT INTO holdfast.tally VALUES (1, 'PENDING', 'pending in a chain');
INSERT INTO holdfast.tally VALUES (1, 'SCHEDULED', 'retrying');
INSERT INTO holdfast.tally VALUES (-1, 'SCHEDULED', 'retrying');
INSERT INTO holdfast.tally VALUES (1, 'RUNNING', 'retrying');
INSERT INTO holdfast.tally VALUES (-1, 'RUNNING', 'retrying');
INSERT INTO holdfast.tally VALUES (1, 'RETRYING', 'retrying');
INSERT INTO holdfast.tally VALUES (1, 'SCHEDULED', 'completed');
INSERT INTO holdfast.tally VALUES (-1, 'SCHEDULED', 'completed');
INSERT INTO holdfast.tally VALUES (1, 'RUNNING', 'completed');
INSERT INTO holdfast.tally VALUES (1, 'SCHEDULED', 'spawned');
INSERT INTO holdfast.tally VALUES (-1, 'RUNNING', 'completed');
INSERT INTO holdfast.tally VALUES (1, 'COMPLETED', 'completed');
INSERT INTO holdfast.tally VALUES (1, 'SCHEDULED', 'failed');
INSERT INTO holdfast.tally VALUES (-1, 'SCHEDULED', 'failed');
INSERT INTO holdfast.tally VALUES (1, 'RUNNING', 'failed');
INSERT INTO holdfast.tally VALUES (-1, 'RUNNING', 'failed');
INSERT INTO holdfast.tally VALUES (1, 'FAILED', 'failed');
INSERT INTO holdfast.tally VALUES (1, 'SCHEDULED', 'dead');
INSERT INTO holdfast.tally VALUES (-1, 'SCHEDULED', 'dead');
INSERT INTO holdfast.tally VALUES (1, 'RUNNING', 'dead');
INSERT INTO holdfast.tally VALUES (-1, 'RUNNING', 'dead');
INSERT INTO holdfast.tally VALUES (1, 'DEAD_LETTER', 'dead');
INSERT INTO holdfast.tally VALUES (1, 'SCHEDULED', 'replayed');
INSERT INTO holdfast.tally VALUES (-1, 'SCHEDULED', 'replayed');
INSERT INTO holdfast.tally VALUES (1, 'RUNNING', 'replayed');
INSERT INTO holdfast.tally VALUES (-1, 'RUNNING', 'replayed');
INSERT INTO holdfast.tally VALUES (1, 'FAILED', 'replayed');
INSERT INTO holdfast.tally VALUES (-1, 'FAILED', 'replayed');
INSERT INTO holdfast.tally VALUES (1, 'SCHEDULED', 'replayed');
INSERT INTO holdfast.tally VALUES (1, 'SCHEDULED', 'cancelled');
INSERT INTO holdfast.tally VALUES (1, 'PENDING', 'ended by its dependency');
INSERT INTO holdfast.tally VALUES (-1, 'SCHEDULED', 'cancelled');
INSERT INTO holdfast.tally VALUES (1, 'CANCELLED', 'cancelled');
INSERT INTO holdfast.tally VALUES (-1, 'PENDING', 'ended by its dependency');
INSERT INTO holdfast.tally VALUES (1, 'CANCELLED', 'ended by its dependency');
INSERT INTO holdfast.tally VALUES (1, 'SCHEDULED', 'stopped');
INSERT INTO holdfast.tally VALUES (-1, 'SCHEDULED', 'stopped');
INSERT INTO holdfast.tally VALUES (1, 'RUNNING', 'stopped');
INSERT INTO holdfast.tally VALUES (-1, 'RUNNING', 'stopped');
INSERT INTO holdfast.tally VALUES (1, 'CANCELLED', 'stopped');
INSERT INTO holdfast.tally VALUES (1, 'SCHEDULED', 'running');
INSERT INTO holdfast.tally VALUES (-1, 'SCHEDULED', 'running');
INSERT INTO holdfast.tally VALUES (1, 'RUNNING', 'running');
INSERT INTO holdfast.tally VALUES (1, 'SCHEDULED', 'running with a note');
INSERT INTO holdfast.tally VALUES (-1, 'SCHEDULED', 'running with a note');
INSERT INTO holdfast.tally VALUES (1, 'RUNNING', 'running with a note');
INSERT INTO holdfast.tally VALUES (1, 'SCHEDULED', 'running, to be cancelled');
INSERT INTO holdfast.tally VALUES (-1, 'SCHEDULED', 'running, to be cancelled');
INSERT INTO holdfast.tally VALUES (1, 'RUNNING', 'running, to be cancelled');
INSERT INTO holdfast.tally VALUES (1, 'SCHEDULED', 'running, waited for');
INSERT INTO holdfast.tally VALUES (-1, 'SCHEDULED', 'running, waited for');
INSERT INTO holdfast.tally VALUES (1, 'RUNNING', 'running, waited for');
INSERT INTO holdfast.tally VALUES (1, 'PENDING', 'pending behind a lease');
INSERT INTO holdfast.tally VALUES (1, 'SCHEDULED', 'paused');
INSERT INTO holdfast.tally VALUES (1, 'SCHEDULED', 'nightly');
INSERT INTO holdfast.tally VALUES (1, 'SCHEDULED', 'ended, untold');
INSERT INTO holdfast.tally VALUES (-1, 'SCHEDULED', 'ended, untold');
INSERT INTO holdfast.tally VALUES (1, 'RUNNING', 'ended, untold');
INSERT INTO holdfast.tally VALUES (1, 'PENDING', 'pending, untold');
INSERT INTO holdfast.tally VALUES (-1, 'RUNNING', 'ended, untold');
INSERT INTO holdfast.tally VALUES (1, 'COMPLETED', 'ended, untold');
INSERT INTO holdfast.waiting VALUES (10, '2100-01-01 02:00:00+00', '2100-01-01 00:01:00+00', '2100-01-08 00:01:00+00', 0, 0, 0, false, false, 'DELAYED', NULL, NULL, NULL);
INSERT INTO holdfast.waiting VALUES (12, NULL, '2100-01-01 00:01:00+00', '2100-01-08 00:01:00+00', 0, 0, 0, false, false, 'PENDING', NULL, NULL, NULL);
INSERT INTO holdfast.waiting VALUES (9, '2100-01-01 01:01:00+00', '2100-01-01 00:01:00+00', '2100-01-08 00:01:00+00', 0, 0, 0, false, true, 'DELAYED', NULL, NULL, NULL);
INSERT INTO holdfast.waiting VALUES (13, NULL, '2100-01-01 00:01:00+00', '2100-01-08 00:01:00+00', 0, 0, 0, false, false, 'PENDING', NULL, NULL, NULL);
INSERT INTO holdfast.waiting VALUES (11, NULL, '2100-01-01 00:01:00+00', '2100-01-08 00:01:00+00', 0, 0, 0, false, true, 'PENDING', NULL, NULL, NULL);
INSERT INTO holdfast.waiting VALUES (14, '2100-01-01 00:02:00+00', '2100-01-01 00:01:00+00', '2100-01-08 00:01:00+00', 1, 1, 0, false, false, 'RETRYING', '2100-01-01 00:01:00+00', '2100-01-01 00:01:00+00', 'cc5b6bd7-a83f-5ba4-bd1e-1207db360000');
INSERT INTO holdfast.waiting VALUES (29, NULL, '2100-01-01 00:01:00+00', '2100-01-08 00:01:00+00', 0, 0, 0, false, false, 'PENDING', NULL, NULL, NULL);
INSERT INTO holdfast.waiting VALUES (34, NULL, '2100-01-01 00:01:00+00', '2100-01-08 00:01:00+00', 0, 0, 0, false, false, 'PENDING', NULL, NULL, NULL);
INSERT INTO holdfast.worker VALUES ('85b89bee-d2f4-51f9-aba6-a13fed62f737', 'gone', '2100-01-01 00:00:00+00', '2100-01-01 00:00:00+00', true, '{}', '{}');
INSERT INTO holdfast.worker VALUES ('894ac980-54c5-5ea7-957a-0778060333bc', 'alive', '2100-01-01 00:00:00+00', '2100-01-01 00:01:00+00', false, '{media}', '{example,resize}');
SELECT pg_catalog.setval('holdfast.job_seq', 34, true);
ALTER TABLE ONLY holdfast.api_key
    ADD CONSTRAINT api_key_pkey PRIMARY KEY (id);
ALTER TABLE ONLY holdfast.attempt
    ADD CONSTRAINT attempt_pkey PRIMARY KEY (job, version);
ALTER TABLE ONLY holdfast.beat
    ADD CONSTRAINT beat_pkey PRIMARY KEY (is_only);
ALTER TABLE ONLY holdfast.cron_slot
    ADD CONSTRAINT cron_slot_pkey PRIMARY KEY (name, slot);
ALTER TABLE ONLY holdfast.edge
    ADD CONSTRAINT edge_pkey PRIMARY KEY (child, parent);
ALTER TABLE ONLY holdfast.ended
    ADD CONSTRAINT ended_pkey PRIMARY KEY (job);
ALTER TABLE ONLY holdfast.idempotency
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (job_type, key);
ALTER TABLE ONLY holdfast.job
    ADD CONSTRAINT job_id_key UNIQUE (id);
ALTER TABLE ONLY holdfast.job
    ADD CONSTRAINT job_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY holdfast.mark
    ADD CONSTRAINT mark_pkey PRIMARY KEY (job);
ALTER TABLE ONLY holdfast.note
    ADD CONSTRAINT note_pkey PRIMARY KEY (job);
ALTER TABLE ONLY holdfast.pause
    ADD CONSTRAINT pause_pkey PRIMARY KEY (queue);
ALTER TABLE ONLY holdfast.ready
    ADD CONSTRAINT ready_pkey PRIMARY KEY (job);
ALTER TABLE ONLY holdfast.running
    ADD CONSTRAINT running_pkey PRIMARY KEY (job);
ALTER TABLE ONLY holdfast.schema_version
    ADD CONSTRAINT schema_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY holdfast.tag
    ADD CONSTRAINT tag_pkey PRIMARY KEY (name, value, job);
ALTER TABLE ONLY holdfast.waiting
    ADD CONSTRAINT waiting_pkey PRIMARY KEY (job);
ALTER TABLE ONLY holdfast.worker
    ADD CONSTRAINT worker_pkey PRIMARY KEY (id);
CREATE INDEX cron_slot_fired ON holdfast.cron_slot USING btree (fired_at);
CREATE INDEX edge_open ON holdfast.edge USING btree (child) WHERE is_open;
CREATE INDEX edge_parent ON holdfast.edge USING btree (parent);
CREATE INDEX ended_dead ON holdfast.ended USING btree (completed_at) WHERE (state = ANY (ARRAY['FAILED'::text, 'DEAD_LETTER'::text]));
CREATE INDEX ended_done ON holdfast.ended USING btree (completed_at) WHERE (state = ANY (ARRAY['COMPLETED'::text, 'CANCELLED'::text]));
CREATE INDEX ended_seldom ON holdfast.ended USING btree (state, job) WHERE (state <> 'COMPLETED'::text);
CREATE INDEX idempotency_expires ON holdfast.idempotency USING btree (expires_at);
CREATE INDEX idempotency_job ON holdfast.idempotency USING btree (job_id);
CREATE INDEX job_spawned_by ON holdfast.job USING btree (spawned_by) WHERE (spawned_by IS NOT NULL);
CREATE INDEX ready_claim ON holdfast.ready USING btree (queue, priority, place);
CREATE INDEX ready_lifetime ON holdfast.ready USING btree (lifetime_ends_at);
CREATE INDEX running_owner ON holdfast.running USING btree (owner, expires_at);
CREATE INDEX tag_job ON holdfast.tag USING btree (job);
CREATE INDEX waiting_due ON holdfast.waiting USING btree (due_at, job) WHERE (due_at IS NOT NULL);
CREATE INDEX waiting_lifetime ON holdfast.waiting USING btree (lifetime_ends_at);
