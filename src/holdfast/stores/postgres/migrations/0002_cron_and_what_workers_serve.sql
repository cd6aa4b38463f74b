-- compatible since 0001
-- What a worker serves: so that a job can be told why nobody takes it. Empty where it did not say.
ALTER TABLE {schema}.worker
    ADD COLUMN queues text[] NOT NULL DEFAULT '{}',
    ADD COLUMN types text[] NOT NULL DEFAULT '{}';

-- The slots of periodic jobs that were fired; without a job where a name was only anchored.
CREATE TABLE {schema}.cron_slot (
    name text NOT NULL,
    slot timestamptz NOT NULL,
    fired_at timestamptz NOT NULL,
    job_id uuid,
    PRIMARY KEY (name, slot)
);
CREATE INDEX cron_slot_fired ON {schema}.cron_slot (fired_at);
