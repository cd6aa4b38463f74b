-- tick: how many rows the tally has, and to how many they would add up.
SELECT count(*) AS rows, (SELECT count(*) FROM (SELECT DISTINCT queue, state FROM {schema}.tally) AS sums) AS sums
FROM {schema}.tally
