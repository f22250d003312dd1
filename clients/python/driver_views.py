"""The lines of the driver: options as arguments of the client, and answers as the suite reads them."""

from __future__ import annotations

import base64
import json
import sys
from datetime import datetime, timedelta, timezone
from typing import Any

import tidegate
from tidegate import Content, Job, Pending

Command = dict[str, Any]
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def emit(line: dict[str, Any]) -> None:
    """Writes a line."""
    sys.stdout.buffer.write(json.dumps(line).encode() + b"\n")
    sys.stdout.buffer.flush()


def error_view(error: BaseException) -> dict[str, Any]:
    """An error as the suite reads it."""
    if not isinstance(error, tidegate.TidegateError):
        return {"class": "Unexpected", "detail": f"{type(error).__name__}: {error}"}
    view = {
        "class": type(error).__name__,
        "status": error.status,
        "code": error.code,
        "detail": error.detail,
        "applied": error.applied,
        "field": error.field,
        "retry_after_ms": None if error.retry_after is None else in_ms(error.retry_after),
    }
    return {name: value for name, value in view.items() if value is not None}


def in_ms(duration: timedelta) -> int:
    """A duration in ms."""
    return duration // timedelta(milliseconds=1)


def native(options: Command) -> dict[str, Any]:
    """Options of the suite as arguments of the client."""
    return dict(native_option(name, value) for name, value in options.items())


def native_option(name: str, value: Any) -> tuple[str, Any]:
    """One option: `delay_ms` is `delay` as a duration, `run_at_ms` is `run_at` as an instant."""
    if name == "run_at_ms" or (name in ("due_from", "due_before") and isinstance(value, int)):
        return name.removesuffix("_ms"), EPOCH + timedelta(milliseconds=value)
    if name in ("due_from", "due_before"):
        return name, datetime.fromisoformat(value.replace("Z", "+00:00"))
    if name.endswith("_ms"):
        return name.removesuffix("_ms"), timedelta(milliseconds=value)
    return name, value


def job_arguments(command: Command) -> dict[str, Any]:
    """Payload, attributes and options of a publish."""
    arguments = native(command.get("options", {}))
    if "attributes" in command:
        arguments["attributes"] = command["attributes"]
    if "payload_base64" in command:
        arguments["payload"] = base64.b64decode(command["payload_base64"])
        arguments["content_type"] = command.get("content_type")
    else:
        arguments["payload"] = command.get("payload")
    return arguments


def content_view(content: Content | Pending, name: str) -> dict[str, Any]:
    """A payload or a result."""
    if isinstance(content, Pending):
        return {"pending": content.id}
    if isinstance(content.value, bytes):
        encoded = base64.b64encode(content.body).decode()
        return {f"{name}_base64": encoded, "content_type": content.content_type}
    return {name: content.value}


def job_view(job: Job) -> dict[str, Any]:
    """A job that was reserved."""
    view: dict[str, Any] = {
        "id": job.id,
        "queue": job.queue,
        "lease": job.lease,
        "attempt": job.attempt,
        "failures": job.failures,
        "content_type": job.content_type,
        "attributes": dict(job.attributes),
        "key": job.key,
        "group": job.group,
    }
    if isinstance(job.payload, bytes):
        view["payload_base64"] = base64.b64encode(job.payload).decode()
    else:
        view["payload"] = job.payload
    return {name: value for name, value in view.items() if value is not None or name == "payload"}


def wire_instant(instant: datetime) -> str:
    """An instant as the server writes it."""
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")
