"""Joins slices without encoding: one header, then the fragments of every slice, which carry their times."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from vodpress.adapters.isobmff import Box, MalformedMp4, top_level
from vodpress.domain.failure import Failure

_COPY_BYTES = 1 << 20
_SEQUENCE_OFFSET = 20  # of the number within a moof: its header 8, mfhd's header 8, version and flags 4


def join(parts: Sequence[Path], output: Path) -> None:
    """Write the fragments of all parts, in order, behind the header of the first.

    Fragments are numbered anew. Blocking; runs in a thread.

    Raises:
        Failure: `output_unverified` when a part is malformed or was made with other encoder settings.
    """
    sequence = 0
    header: bytes | None = None
    with output.open("wb") as target:
        for part in parts:
            try:
                with part.open("rb") as source:
                    boxes = list(top_level(source))
                    own = b"".join(_read(source, box) for box in boxes if box.type in {"ftyp", "moov"})
                    if header is None:
                        header = own
                        target.write(own)
                    elif own != header:
                        raise MalformedMp4("its header differs from that of the first slice")
                    for box in boxes:
                        if box.type == "moof":
                            sequence += 1
                            target.write(_numbered(_read(source, box), sequence))
                        elif box.type == "mdat":
                            _copy(source, box, target)
            except MalformedMp4 as error:
                raise Failure("output_unverified", detail=f"slice {part.name}: {error}", subject=part.name) from error
        target.flush()
        os.fsync(target.fileno())


def _read(source: BinaryIO, box: Box) -> bytes:
    source.seek(box.offset)
    return source.read(box.bytes)


def _numbered(moof: bytes, sequence: int) -> bytes:
    if moof[12:16] != b"mfhd":
        raise MalformedMp4("a moof does not begin with its number")
    return moof[:_SEQUENCE_OFFSET] + struct.pack(">I", sequence) + moof[_SEQUENCE_OFFSET + 4 :]


def _copy(source: BinaryIO, box: Box, target: BinaryIO) -> None:
    source.seek(box.offset)
    left = box.bytes
    while left:
        block = source.read(min(left, _COPY_BYTES))
        if not block:
            raise MalformedMp4("it became shorter while it was read")
        target.write(block)
        left -= len(block)
