-- name: add
INSERT INTO manifests (asset_id, version, plan_id, prefix, sha256, document)
VALUES (%(asset_id)s, %(version)s, %(plan_id)s, %(prefix)s, %(sha256)s, %(document)s);

-- name: by_version
SELECT manifests.*, plans.plan_hash
FROM manifests JOIN plans ON plans.id = manifests.plan_id
WHERE manifests.asset_id = %(asset_id)s AND manifests.version = %(version)s;

-- name: of_asset
SELECT manifests.*, plans.plan_hash
FROM manifests JOIN plans ON plans.id = manifests.plan_id
WHERE manifests.asset_id = %(asset_id)s
ORDER BY manifests.version;

-- name: reserved_version
SELECT reserved_version, reserved_contents FROM plans WHERE id = %(plan_id)s FOR UPDATE;

-- name: count_up_versions
UPDATE assets SET versions = versions + 1
WHERE id = (SELECT asset_id FROM plans WHERE id = %(plan_id)s)
RETURNING versions;

-- name: reserve_version
UPDATE plans SET reserved_version = %(version)s, reserved_contents = %(contents)s WHERE id = %(plan_id)s;

-- name: of_plan
SELECT manifests.*, plans.plan_hash
FROM manifests JOIN plans ON plans.id = manifests.plan_id
WHERE manifests.plan_id = %(plan_id)s
ORDER BY manifests.version DESC LIMIT 1;
