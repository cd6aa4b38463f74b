-- claim's floors: the last place drawn, and then who may still place a row up to it.
-- Guarantees: the place is read before the holders, which name it for that reason. PG3 says why there are no others.
-- Locks: none. A waiting lock is no lock yet: its place is still to be drawn.
SELECT
    last.place,
    pg_postmaster_start_time() AS server,
    ARRAY(
        SELECT DISTINCT l.virtualtransaction
        FROM pg_locks l
        WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
            AND l.relation = '{schema}.ready'::regclass
            AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
            AND last.place >= 0
    ) AS holders
FROM (SELECT coalesce(pg_sequence_last_value('{schema}.job_seq'::regclass), 0) AS place OFFSET 0) last
