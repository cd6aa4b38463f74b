-- compatible since 0003
-- What jobs belong together by; NULL for most of them. Listed within the scan's budget, as a queue is.
ALTER TABLE holdfast_job ADD COLUMN "group" TEXT;
