-- compatible since 0001
-- Who may come in by a front door. Of a key's secret there is only the SHA-256; scopes are a JSON array.
CREATE TABLE holdfast_api_key (
    id BLOB PRIMARY KEY,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;
