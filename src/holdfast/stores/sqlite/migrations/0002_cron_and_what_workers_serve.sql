-- compatible since 0001
-- What a worker serves, as JSON arrays: so that a job can be told why nobody takes it. Empty where it did not say.
ALTER TABLE holdfast_worker ADD COLUMN queues TEXT NOT NULL DEFAULT '[]';
ALTER TABLE holdfast_worker ADD COLUMN types TEXT NOT NULL DEFAULT '[]';

-- The slots of periodic jobs that were fired; without a job where a name was only anchored.
CREATE TABLE holdfast_cron_slot (
    name TEXT NOT NULL,
    slot INTEGER NOT NULL,
    fired_at INTEGER NOT NULL,
    job_id BLOB,
    PRIMARY KEY (name, slot)
) STRICT;
CREATE INDEX holdfast_cron_slot_fired ON holdfast_cron_slot (fired_at);
