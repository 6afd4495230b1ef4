"""Rows of `plans`, `renditions` and `slices`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from psycopg.types.json import Jsonb

from vodpress.adapters.db import rows
from vodpress.adapters.db.named_sql import load
from vodpress.adapters.db.session import Session
from vodpress.domain.failure import Failure, LeaseLost
from vodpress.domain.job import Claim
from vodpress.domain.progress import AssetProgress, RenditionProgress
from vodpress.domain.publication import PublishPolicy
from vodpress.domain.rendition import PLAN, RENDITION, PlanState, RenditionState
from vodpress.ports import AssetRecord, NewPlan, PlanRecord, RenditionRecord, SliceRecord, StoredOutput

_SQL = load(__package__, "plans.sql")
_RENDITIONS = load(__package__, "renditions.sql")


class PostgresPlans:
    """`ports.Plans` over one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(self, new: NewPlan) -> int | None:
        """See `ports.Plans.add`."""
        row = await self._session.one(
            _SQL["add"],
            asset_id=new.asset_id,
            plan_hash=new.plan_hash,
            source_sha256=new.source_sha256,
            source_key=new.source_key,
            ladder_name=new.ladder.name,
            ladder=Jsonb(new.ladder.model_dump(mode="json")),
            document=Jsonb(new.plan.model_dump(mode="json")),
            publish=new.publish.text,
            early_rung=new.early_rung,
            bulk=new.bulk,
            renditions=len(new.renditions),
        )
        if row is None:
            return None
        plan_id: int = row["id"]
        for ordinal, rendition in enumerate(new.renditions):
            added = await self._session.one(
                _SQL["add_rendition"],
                plan_id=plan_id,
                name=rendition.name,
                kind=rendition.kind,
                ordinal=ordinal,
                required=rendition.required,
                rung_hash=rendition.rung_hash,
                slices=rendition.slices,
                weight=rendition.weight,
            )
            assert added is not None  # noqa: S101 - INSERT … RETURNING without ON CONFLICT gives a row or raises
            await self._session.change(_SQL["add_slices"], rendition_id=added["id"], slices=rendition.slices)
        return plan_id

    async def get(self, plan_id: int, *, lock: bool = False) -> PlanRecord | None:
        """See `ports.Plans.get`."""
        row = await self._session.one(_SQL["by_id_locked" if lock else "by_id"], plan_id=plan_id)
        return rows.plan(row) if row else None

    async def by_hash(self, asset: AssetRecord, plan_hash: str, *, lock: bool = False) -> PlanRecord | None:
        """See `ports.Plans.by_hash`."""
        query = _SQL["by_hash_locked" if lock else "by_hash"]
        row = await self._session.one(query, asset_id=asset.id, source_sha256=asset.source_sha256, plan_hash=plan_hash)
        return rows.plan(row) if row else None

    async def of_asset(self, asset_id: str) -> Sequence[PlanRecord]:
        """See `ports.Plans.of_asset`."""
        return [rows.plan(row) for row in await self._session.all(_SQL["of_asset"], asset_id=asset_id)]

    async def move(self, plan_id: int, target: PlanState) -> bool:
        """See `ports.Plans.move`."""
        sources = list(PLAN.sources(target))
        return await self._session.change(_SQL["move"], plan_id=plan_id, target=target, sources=sources) == 1

    async def set_publish(self, plan_id: int, policy: PublishPolicy) -> None:
        """See `ports.Plans.set_publish`."""
        await self._session.change(_SQL["set_publish"], plan_id=plan_id, publish=policy.text)

    async def renditions(self, plan_id: int) -> Sequence[RenditionRecord]:
        """See `ports.Plans.renditions`."""
        return [rows.rendition(row) for row in await self._session.all(_SQL["renditions"], plan_id=plan_id)]

    async def slices(self, rendition_id: int) -> Sequence[SliceRecord]:
        """See `ports.Plans.slices`."""
        return [rows.slice_(row) for row in await self._session.all(_RENDITIONS["slices"], rendition_id=rendition_id)]

    async def claim_slices(
        self, plan_id: int, *, names: Collection[str], index: int, claim: Claim
    ) -> Sequence[RenditionRecord]:
        """See `ports.Plans.claim_slices`."""
        claimed = await self._session.all(
            _RENDITIONS["claim_slices"], plan_id=plan_id, names=list(names), index=index, lease=claim.claim_id
        )
        ids = [row["rendition_id"] for row in claimed]
        await self._session.change(
            _RENDITIONS["start_encoding"],
            ids=ids,
            target=RenditionState.ENCODING,
            sources=[RenditionState.PENDING],
        )
        return [rows.rendition(row) for row in await self._session.all(_RENDITIONS["by_ids"], ids=ids)]

    async def complete_slice(self, rendition_id: int, index: int, claim: Claim, output: StoredOutput) -> int:
        """See `ports.Plans.complete_slice`."""
        changed = await self._session.change(
            _RENDITIONS["complete_slice"],
            rendition_id=rendition_id,
            index=index,
            lease=claim.claim_id,
            key=output.key,
            bytes=output.bytes,
            sha256=output.sha256,
            frames=output.frames,
        )
        if changed != 1:
            raise LeaseLost(f"slice {index} of rendition {rendition_id} is not held by claim {claim.claim_id}")
        row = await self._session.one(_RENDITIONS["count_down_slices"], rendition_id=rendition_id)
        assert row is not None  # noqa: S101 - the slice's foreign key holds the rendition
        return int(row["slices_open"])

    async def release_slices(self, claim: Claim) -> None:
        """See `ports.Plans.release_slices`."""
        await self._session.change(_RENDITIONS["release_slices"], lease=claim.claim_id)

    async def start_stitching(self, rendition_id: int) -> bool:
        """See `ports.Plans.start_stitching`."""
        changed = await self._session.change(
            _RENDITIONS["start_stitching"],
            rendition_id=rendition_id,
            target=RenditionState.STITCHING,
            sources=[RenditionState.ENCODING],  # from `failed` by `reopen` only
        )
        return changed == 1

    async def complete_rendition(self, rendition_id: int, output: StoredOutput) -> int | None:
        """See `ports.Plans.complete_rendition`."""
        target = RenditionState.COMPLETED
        row = await self._session.one(
            _RENDITIONS["complete"],
            rendition_id=rendition_id,
            target=target,
            sources=list(RENDITION.sources(target)),
            key=output.key,
            bytes=output.bytes,
            sha256=output.sha256,
            frames=output.frames,
        )
        if row is None:
            return None
        counted = await self._session.one(_RENDITIONS["count_down_renditions"], plan_id=row["plan_id"])
        assert counted is not None  # noqa: S101 - the rendition's foreign key holds the plan
        return int(counted["renditions_open"])

    async def fail_rendition(self, rendition_id: int, failure: Failure) -> bool:
        """See `ports.Plans.fail_rendition`."""
        target = RenditionState.FAILED
        changed = await self._session.change(
            _RENDITIONS["fail"],
            rendition_id=rendition_id,
            target=target,
            sources=list(RENDITION.sources(target)),
            reason_code=failure.code,
            reason_message=failure.message,
        )
        return changed == 1

    async def waive_rendition(self, rendition_id: int) -> bool:
        """See `ports.Plans.waive_rendition`."""
        target = RenditionState.WAIVED
        row = await self._session.one(
            _RENDITIONS["waive"], rendition_id=rendition_id, target=target, sources=list(RENDITION.sources(target))
        )
        if row is None:
            return False
        await self._session.change(_RENDITIONS["count_down_renditions"], plan_id=row["plan_id"])
        return True

    async def reopen(self, plan_id: int, *, names: Collection[str] | None = None) -> None:
        """See `ports.Plans.reopen`."""
        await self._session.change(_RENDITIONS["reopen"], plan_id=plan_id, names=None if names is None else list(names))
        record = await self.get(plan_id)
        if record is not None:
            await self.move(plan_id, PlanState.ENCODING if record.renditions_open else PlanState.PACKAGING)

    async def reusable(self, *, tenant: str, source_sha256: str, rung_hash: str) -> StoredOutput | None:
        """See `ports.Plans.reusable`."""
        row = await self._session.one(
            _RENDITIONS["reusable"], tenant=tenant, source_sha256=source_sha256, rung_hash=rung_hash
        )
        return rows.stored_output(row) if row else None

    async def set_images(self, plan_id: int, images: Mapping[str, Any] | None) -> None:
        """See `ports.Plans.set_images`."""
        await self._session.change(
            _SQL["set_images"],
            plan_id=plan_id,
            state="failed" if images is None else "completed",
            images=None if images is None else Jsonb(dict(images)),
        )

    async def slices_since(self, plan_id: int, moment: str) -> int:
        """See `ports.Plans.slices_since`."""
        row = await self._session.one(_SQL["slices_since"], plan_id=plan_id, moment=moment)
        return int(row["count"]) if row else 0

    async def progress(self, plan_id: int) -> AssetProgress:
        """See `ports.Plans.progress`."""
        record = await self.get(plan_id)
        sizes = {rung.name: (rung.width, rung.height) for rung in record.plan.rungs} if record else {}
        found = await self._session.all(_SQL["progress"], plan_id=plan_id)
        return AssetProgress(
            renditions=tuple(
                RenditionProgress(
                    name=row["name"],
                    state=row["state"],
                    width=sizes.get(row["name"], (None, None))[0],
                    height=sizes.get(row["name"], (None, None))[1],
                    weight=row["weight"],
                    fraction=1.0
                    if row["state"] == RenditionState.COMPLETED
                    else min(1.0, (row["slices_done"] + row["slices_moving"]) / row["slices"]),
                    speed=row["speed"],
                )
                for row in found
            ),
            packaging=record is not None and record.state is PlanState.PACKAGING,
        )
