-- The domain tables: they say what is done. The queue only delivers work.

CREATE TABLE assets (
    id              text PRIMARY KEY,
    tenant          text NOT NULL DEFAULT 'default',
    state           text NOT NULL DEFAULT 'created'
                    CHECK (state IN ('created', 'uploading', 'processing', 'ready', 'errored')),
    title           text NOT NULL,
    passthrough     text NOT NULL DEFAULT '',
    source_sha256   text,
    source_bytes    bigint,
    source_key      text,
    probe           jsonb,
    reason_code     text,
    reason_message  text,
    live_version    integer,
    versions        integer NOT NULL DEFAULT 0,   -- highest version number given out
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    ready_at        timestamptz,
    CONSTRAINT assets_source_known CHECK (state IN ('created', 'uploading', 'errored') OR source_key IS NOT NULL),
    CONSTRAINT assets_ready_has_manifest CHECK ((state = 'ready') = (ready_at IS NOT NULL AND live_version IS NOT NULL)),
    CONSTRAINT assets_errored_has_reason CHECK (state <> 'errored' OR reason_code IS NOT NULL)
);
-- The same bytes with the same passthrough are the same asset, however often they are submitted.
CREATE UNIQUE INDEX assets_source_identity ON assets (tenant, source_sha256, passthrough)
    WHERE source_sha256 IS NOT NULL;
CREATE INDEX assets_newest ON assets (created_at DESC, id);

CREATE TABLE plans (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    asset_id         text NOT NULL REFERENCES assets ON DELETE CASCADE,
    plan_hash        text NOT NULL,
    ladder_name      text NOT NULL,
    document         jsonb NOT NULL,
    state            text NOT NULL DEFAULT 'encoding'
                     CHECK (state IN ('encoding', 'packaging', 'published', 'failed')),
    renditions_open  integer NOT NULL CHECK (renditions_open >= 0),
    images_state     text NOT NULL DEFAULT 'pending' CHECK (images_state IN ('pending', 'completed', 'failed')),
    images           jsonb,
    reserved_version integer,   -- the number its package job works on
    created_at       timestamptz NOT NULL DEFAULT now(),
    UNIQUE (asset_id, plan_hash),
    CONSTRAINT plans_packaging_is_complete CHECK (state NOT IN ('packaging', 'published') OR renditions_open = 0),
    CONSTRAINT plans_images_are_known CHECK ((images_state = 'completed') = (images IS NOT NULL))
);

CREATE TABLE renditions (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    plan_id          bigint NOT NULL REFERENCES plans ON DELETE CASCADE,
    name             text NOT NULL,
    kind             text NOT NULL CHECK (kind IN ('video', 'audio')),
    ordinal          integer NOT NULL,
    required         boolean NOT NULL,
    -- What the encode depends on apart from the source; equal ones have equal bytes.
    rung_hash        text NOT NULL,
    state            text NOT NULL DEFAULT 'pending'
                     CHECK (state IN ('pending', 'encoding', 'stitching', 'completed', 'failed')),
    slices_open      integer NOT NULL CHECK (slices_open >= 0),
    weight           double precision NOT NULL,   -- pixels × frames, for progress
    key              text,
    bytes            bigint,
    sha256           text,
    frames           bigint,
    reason_code      text,
    reason_message   text,
    completed_at     timestamptz,
    UNIQUE (plan_id, name),
    CONSTRAINT renditions_completed_is_recorded CHECK (
        (state = 'completed') = (completed_at IS NOT NULL AND key IS NOT NULL AND sha256 IS NOT NULL)),
    CONSTRAINT renditions_stitching_has_slices CHECK (state <> 'stitching' OR slices_open = 0),
    CONSTRAINT renditions_failed_has_reason CHECK ((state = 'failed') = (reason_code IS NOT NULL))
);
CREATE INDEX renditions_reusable ON renditions (rung_hash) WHERE state = 'completed';

CREATE TABLE slices (
    rendition_id   bigint NOT NULL REFERENCES renditions ON DELETE CASCADE,
    index          integer NOT NULL,
    state          text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'encoding', 'completed')),
    attempt        integer NOT NULL DEFAULT 0,
    -- The claim that works on it: a result is accepted only with the live one.
    lease          uuid,
    key            text,
    bytes          bigint,
    sha256         text,
    frames         bigint,
    completed_at   timestamptz,
    PRIMARY KEY (rendition_id, index),
    CONSTRAINT slices_encoding_is_leased CHECK ((state = 'encoding') = (lease IS NOT NULL)),
    CONSTRAINT slices_completed_is_recorded CHECK (
        (state = 'completed') = (completed_at IS NOT NULL AND key IS NOT NULL AND sha256 IS NOT NULL))
);

-- Written every few seconds while tools run, so kept apart from the rows that matter.
CREATE UNLOGGED TABLE progress (
    rendition_id   bigint NOT NULL REFERENCES renditions ON DELETE CASCADE,
    slice_index    integer NOT NULL,
    done_seconds   double precision NOT NULL,
    total_seconds  double precision NOT NULL,
    speed          double precision NOT NULL,
    updated_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (rendition_id, slice_index)
);

CREATE TABLE manifests (
    asset_id      text NOT NULL REFERENCES assets ON DELETE CASCADE,
    version       integer NOT NULL CHECK (version > 0),
    plan_id       bigint NOT NULL REFERENCES plans ON DELETE CASCADE,
    prefix        text NOT NULL,
    sha256        text NOT NULL,
    document      jsonb NOT NULL,
    published_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (asset_id, version)
);

CREATE TABLE dead_letters (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    asset_id    text NOT NULL REFERENCES assets ON DELETE CASCADE,
    job_kind    text NOT NULL,
    job_args    jsonb NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('infrastructure', 'content', 'not_yet')),
    code        text NOT NULL,
    message     text NOT NULL,
    detail      text NOT NULL,
    attempts    integer NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    resolution  text CHECK (resolution IN ('retry', 'waive', 'fail', 'replace_source')),
    resolved_at timestamptz,
    CONSTRAINT dead_letters_resolved CHECK ((resolution IS NULL) = (resolved_at IS NULL))
);
CREATE INDEX dead_letters_open ON dead_letters (asset_id) WHERE resolution IS NULL;

-- One row a fact, written in the transaction that made it true. `position` orders the rows of one asset.
CREATE TABLE outbox (
    position     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id           uuid NOT NULL UNIQUE DEFAULT gen_random_uuid(),
    type         text NOT NULL,
    tenant       text NOT NULL,
    asset_id     text NOT NULL,
    data         jsonb NOT NULL,
    occurred_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX outbox_asset ON outbox (asset_id, position);
