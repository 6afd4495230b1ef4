-- Publish policies, decisions about dead letters, and what workers and nodes say of themselves.

-- A plan belongs to one source: an asset's source can be replaced, and its first plan may have the same shape.
ALTER TABLE plans
    ADD COLUMN source_sha256 text,
    ADD COLUMN source_key text,
    ADD COLUMN ladder jsonb,                        -- whole, to plan another source with it; unknown for older plans
    ADD COLUMN publish text NOT NULL DEFAULT 'all',
    ADD COLUMN early_rung text,                     -- encoded by itself before the others
    ADD COLUMN bulk boolean NOT NULL DEFAULT false,
    ADD COLUMN reserved_contents jsonb;             -- what the reserved version holds, fixed for all its attempts
UPDATE plans SET source_sha256 = assets.source_sha256, source_key = assets.source_key
FROM assets WHERE assets.id = plans.asset_id;
UPDATE plans SET reserved_contents = jsonb_build_object(
    'renditions', (SELECT jsonb_agg(name ORDER BY ordinal) FROM renditions WHERE plan_id = plans.id),
    'waived', '[]'::jsonb, 'images', images_state = 'completed')
WHERE reserved_version IS NOT NULL;
ALTER TABLE plans
    ALTER COLUMN source_sha256 SET NOT NULL,
    ALTER COLUMN source_key SET NOT NULL,
    DROP CONSTRAINT plans_asset_id_plan_hash_key,
    ADD CONSTRAINT plans_identity UNIQUE (asset_id, source_sha256, plan_hash),
    ADD CONSTRAINT plans_reserved_together CHECK ((reserved_version IS NULL) = (reserved_contents IS NULL));

ALTER TABLE renditions
    DROP CONSTRAINT renditions_state_check,
    ADD CONSTRAINT renditions_state_check
        CHECK (state IN ('pending', 'encoding', 'stitching', 'completed', 'failed', 'waived')),
    DROP CONSTRAINT renditions_failed_has_reason,
    ADD CONSTRAINT renditions_failed_has_reason CHECK ((state IN ('failed', 'waived')) = (reason_code IS NOT NULL));

-- A person went back to an earlier version when this was the newest plan: only later plans change what is live.
ALTER TABLE assets ADD COLUMN held_at_plan bigint;

ALTER TABLE dead_letters
    ADD COLUMN traceback text NOT NULL DEFAULT '',
    ADD COLUMN decided_by text,
    ADD COLUMN decided_why text,
    ADD CONSTRAINT dead_letters_decided_by_someone CHECK (resolution IS NULL OR decided_by IS NOT NULL) NOT VALID;
CREATE INDEX dead_letters_by_cause ON dead_letters (code, id) WHERE resolution IS NULL;

-- One row a queue that a process serves, for as long as its worker is known.
CREATE TABLE workers (
    worker_id    bigint PRIMARY KEY REFERENCES procrastinate_workers ON DELETE CASCADE,
    node         text NOT NULL,
    process_id   integer NOT NULL,
    queue        text NOT NULL,
    concurrency  integer NOT NULL CHECK (concurrency > 0),
    started_at   timestamptz NOT NULL DEFAULT now()
);

-- Nodes that took themselves out of service, and those that came back.
CREATE TABLE nodes (
    name        text PRIMARY KEY,
    state       text NOT NULL CHECK (state IN ('in_service', 'out_of_service', 'on_trial')),
    reason      text NOT NULL,
    since       timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now()
);

-- How fast finished encode jobs were: for estimates, and to notice a slow worker.
CREATE TABLE encode_speeds (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    class         text NOT NULL,              -- kind, codec and preset: what is comparable
    work          double precision NOT NULL,  -- pixels × frames, over all rungs of the job
    wall_seconds  double precision NOT NULL CHECK (wall_seconds > 0),
    cpu_seconds   double precision NOT NULL,
    media_seconds double precision NOT NULL,
    node          text NOT NULL,
    at            timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX encode_speeds_newest ON encode_speeds (class, id DESC);

-- The next job of a queue whose jobs wait while one of another queue does.
CREATE FUNCTION vodpress_fetch_yielding_job(
    p_queue text, p_before text, p_kinds text[], p_worker_id bigint, p_claim_id uuid)
    RETURNS SETOF procrastinate_jobs
    LANGUAGE plpgsql
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET enable_sort = off
AS $$
BEGIN
    PERFORM FROM procrastinate_jobs
    WHERE status = 'todo' AND queue_name = p_before AND (scheduled_at IS NULL OR scheduled_at <= now())
    ORDER BY priority DESC, id
    LIMIT 1;
    IF NOT FOUND THEN
        RETURN QUERY SELECT * FROM vodpress_fetch_job(p_queue, p_kinds, p_worker_id, p_claim_id);
    END IF;
END;
$$;
