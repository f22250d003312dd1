"""JSON as the server reads and writes it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from .errors import InvalidRequestError

JSON = "application/json"
BYTES = "application/octet-stream"


def _plain(value: object) -> Any:
    """The parts of a dataclass or of a pydantic model, which `json` does not know."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json")
    raise TypeError(f"{type(value).__name__} is no type of JSON")


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)


def encode(value: object, what: str = "payload") -> bytes:
    """The value as JSON.

    Raises:
        InvalidRequestError: The value has parts that JSON does not have, such as bytes or NaN.
    """
    try:
        return _ENCODER.encode(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        text = f"{what} cannot be written as JSON: {error}"
        raise InvalidRequestError(text, field=what) from error


def decode(text: bytes | str) -> Any:
    """The value of a JSON text. Integers of any length stay as they are."""
    return json.loads(text)


def is_json(content_type: str) -> bool:
    """Whether a payload of this content type is JSON."""
    media_type = content_type.split(";", 1)[0].strip().lower()
    return media_type == JSON or media_type.endswith("+json")


def spliced(fields: dict[str, Any], name: str, value: bytes) -> bytes:
    """An object with these fields, and one more whose value is JSON already."""
    head = encode(fields)[:-1]
    comma = b"," if fields else b""
    return b"".join((head, comma, encode(name), b":", value, b"}"))
