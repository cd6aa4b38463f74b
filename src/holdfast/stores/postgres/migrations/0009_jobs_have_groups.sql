-- compatible since 0004
-- What jobs belong together by; NULL for most of them, which takes no room. Listed within the scan's budget, as a queue is.
ALTER TABLE {schema}.job ADD COLUMN "group" text;
