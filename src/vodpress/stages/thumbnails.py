"""Thumbnails: poster and storyboard. They never hold up `ready`; late ones come with the next manifest version."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from vodpress.domain.failure import Failure
from vodpress.domain.job import Claim, Discard, Done, JobKind, JobRequest, Outcome
from vodpress.domain.keys import image_prefix
from vodpress.ports import PlanRecord, Transaction
from vodpress.stages import package
from vodpress.stages.services import Services, Stage


class Args(BaseModel):
    """Which plan's images."""

    model_config = ConfigDict(frozen=True)
    asset_id: str
    plan_id: int


def request(plan: PlanRecord) -> JobRequest:
    """The job that makes the images of a plan."""
    return JobRequest(
        JobKind.THUMBNAILS,
        {"asset_id": plan.asset_id, "plan_id": plan.id},
        unique_key=f"thumbnails:{plan.id}",
    )


async def handle(args: Args, claim: Claim, services: Services) -> Outcome:
    """Make and store the images, record them, and ask for a new version where one was published without."""
    async with services.work.begin() as transaction:
        await transaction.jobs.verify(claim)
        record = await transaction.plans.get(args.plan_id)
        asset = await transaction.assets.get(args.asset_id)
    if record is None or asset is None or asset.probe is None:
        return Discard("the asset was deleted")
    async with services.scratch_folder(claim) as folder:
        source = await services.on_disk(record.source_key, folder)
        output = folder / "images"
        output.mkdir()
        images = await services.transcoder.thumbnails(source, record.plan, asset.probe, output)
        files = []
        for path in images.files:
            file = images.folder / path
            digest = await asyncio.to_thread(_sha256, file)
            key = image_prefix(record.prefix) + path
            await services.store_file(key, file)
            files.append({"path": path, "key": key, "bytes": file.stat().st_size, "sha256": digest})
    document: dict[str, Any] = {"poster": images.poster, "storyboard": images.storyboard, "files": files}
    async with services.work.begin() as transaction:
        await transaction.jobs.complete(claim)
        locked = await transaction.plans.get(args.plan_id, lock=True)
        await transaction.plans.set_images(args.plan_id, document)
        if locked is not None and await transaction.manifests.of_plan(args.plan_id) is not None:
            await package.ask_for_version(transaction, args.plan_id)
    return Done()


async def give_up(args: Args, failure: Failure, transaction: Transaction) -> None:
    """The video goes on without images."""
    del failure  # the dead letter keeps it
    await transaction.plans.set_images(args.plan_id, None)


STAGE = Stage(JobKind.THUMBNAILS, Args, handle, give_up)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
