"""One file a codec: what its encoder is told, and what must come out."""

from vodpress.codecs import aac, h264

VIDEO = {"h264": h264}
AUDIO = {"aac": aac}

__all__ = ["AUDIO", "VIDEO"]
