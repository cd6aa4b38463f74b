-- tick: add the tally up, if the table can be had for itself within $1 milliseconds; whether that was so.
-- Locks: all of tally, for as long as it takes to write the sums. Nothing else is locked, so nobody can wait in a circle.
SELECT {schema}.compact_tally($1::int) AS is_done
