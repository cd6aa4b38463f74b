-- compatible since 0001
-- Who may come in by a front door. Of a key's secret there is only the SHA-256.
CREATE TABLE {schema}.api_key (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    scopes text[] NOT NULL,
    digest bytea NOT NULL CHECK (length(digest) = 32),
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz
);
