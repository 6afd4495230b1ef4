-- name: record
INSERT INTO nodes (name, state, reason) VALUES (%(name)s, %(state)s, %(reason)s)
ON CONFLICT (name) DO UPDATE
SET since = CASE nodes.state WHEN excluded.state THEN nodes.since ELSE now() END,
    state = excluded.state, reason = excluded.reason, updated_at = now();

-- name: out_of_service
SELECT * FROM nodes WHERE state <> 'in_service' ORDER BY name;
