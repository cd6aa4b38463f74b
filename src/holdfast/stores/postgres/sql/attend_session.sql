-- attend: for how long the server keeps a session whose client it cannot reach. Such a client is not dead, so that must be
-- longer than the worker timeout, whatever the server's own settings say: at least a minute.
-- 0 is the system's own time, which is longer; so it reads on a Unix socket, too.
SELECT set_config(wanted.name, wanted.least::text, false)
FROM (VALUES ('tcp_user_timeout', 60000), ('tcp_keepalives_idle', 60)) AS wanted (name, least)
WHERE current_setting(wanted.name) <> '0'
    AND (SELECT s.setting::bigint FROM pg_settings s WHERE s.name = wanted.name) BETWEEN 1 AND wanted.least - 1
