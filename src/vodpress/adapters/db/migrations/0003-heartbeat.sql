-- A heartbeat compares the claims on record with those held only after it has read the former: three plain statements
-- of the worker. The function took a list that was older than what it read, and disowned jobs fetched in between.
DROP FUNCTION vodpress_heartbeat(bigint[], uuid[]);
