"""Logs: structlog to standard error, as lines for people or as JSON, with everybody's log calls in one stream.

What is logged may come from strangers (titles, file names, what a tool printed), so no value can move the cursor,
change colours, reverse text or start a line of its own. A log that cannot be written is dropped; it stops no work.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Literal

import structlog
from structlog.typing import EventDict, WrappedLogger

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

# C0 but tab and newline, DEL, C1, bidirectional controls, line and paragraph separators, lone surrogates.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_PLAIN = re.compile(r"[^\s\"'=\\]+")
_DEEPEST = 8
_LONGEST = 20_000  # characters of one value


def configure_logging(level: Literal["debug", "info", "warning", "error"], format: Literal["text", "json"]) -> None:  # noqa: A002
    """Set up logging for this process; may be called again.

    Args:
        level: the least level logged by vodpress. Libraries log warnings and errors, whatever it is.
        format: `text` for people, `json` for one JSON object a line.
    """
    threshold = _LEVELS[level]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            _sanitise,
            _as_json if format == "json" else _as_text,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=_StandardErrorFactory(),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Bridge)]:
        root.removeHandler(handler)
    root.addHandler(_Bridge(max(threshold, logging.WARNING)))
    root.setLevel(max(threshold, logging.WARNING))


class _StandardError:
    """Writes lines to whatever `sys.stderr` is at that moment, so that a progress display may stand in for it."""

    def msg(self, message: str) -> None:
        stream = sys.stderr
        if stream is None:  # the process was started with it closed
            return
        try:
            if (own := sys.__stderr__) is not None and stream is own:
                # Past the stream's buffer: what cannot be written must not be left for the flush at exit, which would
                # change the exit status.
                _write_all(own.fileno(), f"{message}\n".encode(errors="replace"))
            else:
                stream.write(f"{message}\n")
        except (OSError, ValueError):  # closed, broken or full: there is no place left to say so
            return

    debug = info = warning = warn = error = critical = fatal = exception = log = msg


class _StandardErrorFactory:
    def __call__(self, *_names: object) -> WrappedLogger:
        return _StandardError()


class _Bridge(logging.Handler):
    """Takes the records of the standard library's logging into the same stream."""

    def emit(self, record: logging.LogRecord) -> None:
        level = next((name for name, number in reversed(_LEVELS.items()) if record.levelno >= number), "debug")
        try:
            message = record.getMessage()
        except (TypeError, ValueError, KeyError):  # arguments that do not fit the message are the caller's defect
            message = f"{record.msg} {record.args!r}"
        structlog.get_logger().log(_LEVELS[level], message, logger=record.name, exc_info=record.exc_info)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sanitise(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {_clean_text(str(key)): _clean(value, _DEEPEST) for key, value in event.items()}


def _clean(value: object, depth: int) -> Any:
    """JSON without control characters. Newlines stay here; the renderers escape them."""
    if value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if depth and isinstance(value, Mapping):
        return {_clean_text(str(key)): _clean(item, depth - 1) for key, item in value.items()}
    if depth and isinstance(value, list | tuple | set | frozenset):
        return [_clean(item, depth - 1) for item in value]
    if isinstance(value, bytes | bytearray):
        value = value.decode(errors="replace")
    return _clean_text(str(value))


def _clean_text(text: str) -> str:
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]} … {len(text) - _LONGEST} characters more"
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def _as_json(_logger: WrappedLogger, _method: str, event: MutableMapping[str, Any]) -> str:
    ordered = {name: event.pop(name, None) for name in ("timestamp", "level", "event")}
    return json.dumps({**ordered, **event}, ensure_ascii=False, default=str)


def _as_text(_logger: WrappedLogger, _method: str, event: MutableMapping[str, Any]) -> str:
    head = f"{event.pop('timestamp')} {event.pop('level'):<7} {_one_line(event.pop('event', ''))}"
    traces = [str(event.pop(name)) for name in ("exception", "stack") if name in event]
    pairs = "".join(f" {_value(key)}={_value(value)}" for key, value in event.items())
    # A bar before every line of a traceback: its message may look like a line of the log.
    return "\n".join([head + pairs, *(f"  | {line}" for trace in traces for line in trace.splitlines())])


def _one_line(text: object) -> str:
    return str(text).replace("\n", "\\n").replace("\t", " ")


def _value(value: object) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False)
