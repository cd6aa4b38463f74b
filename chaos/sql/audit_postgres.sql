-- The witness: every birth, extension and end of a lease, by the database's clock and in its order, and every checkpoint
-- with the lease that was valid when it was written. Written in the transaction that does it, by the database itself.
CREATE SCHEMA chaos;
CREATE TABLE chaos.audit (
    number bigserial PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    event text NOT NULL,
    job bigint NOT NULL,
    token uuid,
    version int,
    said text
);

CREATE FUNCTION chaos.born() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos.audit (event, job, token, version) SELECT 'born', job, token, version FROM fresh;
    RETURN NULL;
END $$;
CREATE FUNCTION chaos.extended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos.audit (event, job, token, version) SELECT 'extended', job, token, version FROM fresh;
    RETURN NULL;
END $$;
CREATE FUNCTION chaos.died() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos.audit (event, job, token, version) SELECT 'died', job, token, version FROM gone;
    RETURN NULL;
END $$;
CREATE FUNCTION chaos.noted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos.audit (event, job, token, said)
    SELECT 'noted', f.job, r.token, convert_from(f.checkpoint, 'UTF8')
    FROM fresh f LEFT JOIN holdfast.running r ON r.job = f.job
    WHERE f.checkpoint IS NOT NULL;
    RETURN NULL;
END $$;

CREATE TRIGGER chaos_born AFTER INSERT ON holdfast.running
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION chaos.born();
CREATE TRIGGER chaos_extended AFTER UPDATE ON holdfast.running
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION chaos.extended();
CREATE TRIGGER chaos_died AFTER DELETE ON holdfast.running
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION chaos.died();
CREATE TRIGGER chaos_noted AFTER INSERT ON holdfast.note
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION chaos.noted();
CREATE TRIGGER chaos_noted_again AFTER UPDATE ON holdfast.note
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION chaos.noted();
