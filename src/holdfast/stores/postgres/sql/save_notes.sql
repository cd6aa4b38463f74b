-- Progress and checkpoint of running jobs; NULL leaves what is there.
INSERT INTO {schema}.note (job, percent, message, checkpoint)
SELECT * FROM unnest($1::bigint[], $2::float8[], $3::text[], $4::bytea[])
ON CONFLICT (job) DO UPDATE SET
    percent = coalesce(excluded.percent, note.percent),
    message = coalesce(excluded.message, note.message),
    checkpoint = coalesce(excluded.checkpoint, note.checkpoint)
