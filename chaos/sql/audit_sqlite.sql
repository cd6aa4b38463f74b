-- The witness: as audit_postgres.sql. The order of numbers is the order of writes: there is one writer at a time.
CREATE TABLE chaos_audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL DEFAULT ((julianday('now') - 2440587.5) * 86400.0),
    event TEXT NOT NULL,
    job INTEGER NOT NULL,
    token BLOB,
    version INTEGER,
    said TEXT
);
CREATE TRIGGER chaos_born AFTER INSERT ON holdfast_running BEGIN
    INSERT INTO chaos_audit (event, job, token, version) VALUES ('born', new.job, new.token, new.version);
END;
CREATE TRIGGER chaos_extended AFTER UPDATE ON holdfast_running BEGIN
    INSERT INTO chaos_audit (event, job, token, version) VALUES ('extended', new.job, new.token, new.version);
END;
CREATE TRIGGER chaos_died AFTER DELETE ON holdfast_running BEGIN
    INSERT INTO chaos_audit (event, job, token, version) VALUES ('died', old.job, old.token, old.version);
END;
CREATE TRIGGER chaos_noted AFTER INSERT ON holdfast_note WHEN new.checkpoint IS NOT NULL BEGIN
    INSERT INTO chaos_audit (event, job, token, said)
    VALUES ('noted', new.job, (SELECT token FROM holdfast_running WHERE job = new.job), CAST(new.checkpoint AS TEXT));
END;
CREATE TRIGGER chaos_noted_again AFTER UPDATE ON holdfast_note WHEN new.checkpoint IS NOT NULL BEGIN
    INSERT INTO chaos_audit (event, job, token, said)
    VALUES ('noted', new.job, (SELECT token FROM holdfast_running WHERE job = new.job), CAST(new.checkpoint AS TEXT));
END;
