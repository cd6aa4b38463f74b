-- wait: what is said and asked where work is waited for.

-- [notify]
-- To other processes: there is work in these queues. As part of a caller's transaction it comes with its commit.
SELECT pg_notify($1::text, payload) FROM unnest($2::text[]) AS g (payload)

-- [notify_after_commit]
-- The same by itself, of which nothing need reach the disk.
SELECT set_config('synchronous_commit', 'off', true), pg_notify($1::text, payload) FROM unnest($2::text[]) AS g (payload)

-- [is_read_only]
-- Of a server that was the primary and is fenced off: nobody submits there. Locks: none.
SELECT current_setting('transaction_read_only') = 'on'
