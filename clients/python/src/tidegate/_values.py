"""Durations and instants, in Python and on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from .errors import InvalidRequestError

_MS = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def duration_ms(name: str, value: object) -> int:
    """Whole milliseconds, rounded up, so that no job is early."""
    if not isinstance(value, timedelta):
        raise InvalidRequestError(f"{name} is not a timedelta: {value!r}", field=name)
    if value < timedelta(0):
        raise InvalidRequestError(f"{name} is negative: {value}", field=name)
    return -(-value // _MS)


def duration_text(name: str, value: object) -> str:
    """A duration as the server reads it."""
    return f"{duration_ms(name, value)}ms"


def instant_ms(name: str, value: object) -> int:
    """Milliseconds since 1970, rounded up, so that no job is early."""
    if not isinstance(value, datetime):
        raise InvalidRequestError(f"{name} is not a datetime: {value!r}", field=name)
    if value.tzinfo is None:
        text = f"{name} has no time zone: write datetime.now(timezone.utc), or value.astimezone()"
        raise InvalidRequestError(text, field=name)
    return -((_EPOCH - value) // _MS)


def wire_value(name: str, value: object) -> Any:
    """A value of a policy or a schedule as the server reads it."""
    if isinstance(value, timedelta):
        return duration_text(name, value)
    if isinstance(value, datetime):
        return instant_ms(name, value)
    if isinstance(value, Mapping):
        return {key: wire_value(f"{name}.{key}", part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [wire_value(f"{name}[{index}]", part) for index, part in enumerate(value)]
    return value


def wire_fields(value: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a policy or a schedule as the server reads them."""
    return {name: wire_value(name, part) for name, part in value.items()}


def read_instant(text: str | None) -> datetime | None:
    """An instant of an answer, in UTC. `None` if the answer has none."""
    if text is None:
        return None
    # Python 3.10 does not read `Z`.
    return datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)


def instant(text: str) -> datetime:
    """An instant that an answer always has."""
    read = read_instant(text)
    assert read is not None
    return read


def read_ms(ms: int | None) -> timedelta | None:
    """A duration of an answer. `None` if the answer has none."""
    return None if ms is None else timedelta(milliseconds=ms)


def seconds(name: str, value: timedelta) -> float:
    """A duration for timers."""
    return duration_ms(name, value) / 1000
