-- A new job's number is its place, and later places are drawn from the same sequence.
SELECT setval('{schema}.job_seq', greatest(nextval('{schema}.job_seq'), nextval('{schema}.place_seq')));
-- Programs of before must not go on drawing places from it: those would lie behind where claims begin.
DROP SEQUENCE {schema}.place_seq;
