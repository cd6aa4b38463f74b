-- compatible since 0004
-- A new job's number is its place, and later places are drawn from the same sequence.
-- Programs of before may be at work: this waits for those who have drawn from it and keeps others from drawing until the
-- end, so that it cannot be set back behind them.
ALTER SEQUENCE {schema}.job_seq OWNED BY NONE;
SELECT setval('{schema}.job_seq', greatest(nextval('{schema}.job_seq'), nextval('{schema}.place_seq')));
-- Programs of before must not go on drawing places from it: those would lie behind where claims begin.
DROP SEQUENCE {schema}.place_seq;
