-- name: add
INSERT INTO encode_speeds (class, work, wall_seconds, cpu_seconds, media_seconds, node)
VALUES (%(comparable)s, %(work)s, %(wall_seconds)s, %(cpu_seconds)s, %(media_seconds)s, %(node)s);

-- name: forget
-- A little more than is asked for, so that it costs nothing most of the time.
DELETE FROM encode_speeds
WHERE class = %(comparable)s AND id < (
    SELECT id FROM encode_speeds WHERE class = %(comparable)s ORDER BY id DESC OFFSET %(kept)s LIMIT 1);

-- name: recent
SELECT * FROM encode_speeds WHERE class = %(comparable)s ORDER BY id DESC LIMIT %(limit)s;
