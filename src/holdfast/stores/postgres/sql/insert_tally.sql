INSERT INTO {schema}.tally (queue, state, delta) SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])
