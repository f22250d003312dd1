"""A job to publish."""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._json import BYTES, JSON, encode, is_json, spliced
from .._tracing import ATTRIBUTE, current_traceparent
from ..errors import InvalidRequestError
from ..options import PublishOptions, names_of, wire_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

_OPTIONS = names_of(PublishOptions)
_ATTRIBUTE_NAME = re.compile(r"[a-z0-9_.-]{1,64}", re.ASCII)
_OVERHEAD_BYTES = 300


class NewJob:
    """A job of a batch, with its options.

    Args:
        payload: Any value that JSON has, a dataclass or a pydantic model; or bytes.
        content_type: By default `application/json`, and `application/octet-stream` for bytes.
        attributes: Up to 32 names and values that travel with the job. Names have 1 to 64 lower-case letters, digits,
            `-`, `_` and `.`; values up to 1,024 bytes.
        **options: See `PublishOptions`.
    """

    __slots__ = ("attributes", "content_type", "options", "payload")

    def __init__(
        self,
        payload: Any = None,
        *,
        content_type: str | None = None,
        attributes: Mapping[str, str] | None = None,
        **options: Unpack[PublishOptions],
    ) -> None:
        self.payload = payload
        self.content_type = content_type
        self.attributes = attributes
        self.options = options

    def __repr__(self) -> str:
        # Without the payload, which may be large or private.
        return f"NewJob({', '.join(f'{name}={value!r}' for name, value in self.options.items())})"


@dataclass(frozen=True)
class PreparedJob:
    """A job as the server reads it."""

    payload: bytes
    is_json: bool
    """Whether the payload may be written into the JSON of a batch."""
    content_type: str
    attributes: Mapping[str, str]
    options: Mapping[str, Any]
    idempotency_key: str | None
    traceparent: str | None

    @property
    def is_safe(self) -> bool:
        """Whether a repetition finds the job of the first request."""
        return self.idempotency_key is not None or "key" in self.options

    @property
    def size(self) -> int:
        """About how many bytes it has in a batch."""
        length = len(self.payload)
        attributes = sum(len(name) + len(value) for name, value in self.attributes.items())
        return _OVERHEAD_BYTES + attributes + (length if self.is_json else length * 4 // 3)

    def batch_item(self) -> bytes:
        """The job as an entry of a batch."""
        fields: dict[str, Any] = dict(self.options)
        if self.idempotency_key is not None:
            fields["idempotency_key"] = self.idempotency_key
        if self.attributes:
            fields["attributes"] = self.attributes
        if self.content_type != (JSON if self.is_json else BYTES):
            fields["content_type"] = self.content_type
        if self.is_json:
            return spliced(fields, "payload", self.payload)
        fields["payload_base64"] = base64.b64encode(self.payload).decode()
        return encode(fields)


def prepare(job: NewJob) -> PreparedJob:
    """Checks a job, and writes it as the server reads it.

    Raises:
        InvalidRequestError: A part of the job is not valid.
        TypeError: There is no such option.
    """
    options = wire_options(_OPTIONS, dict(job.options))
    is_idempotent = options.pop("idempotent", None)
    idempotency_key = options.pop("idempotency_key", None)
    if options.get("key") == "":
        raise InvalidRequestError("a key has 1 to 255 bytes", field="key")
    if idempotency_key is None:
        if is_idempotent is None:
            # With `reject`, a repetition would be refused because of the job of the first request.
            is_idempotent = "key" not in options or options.get("if_exists") == "reject"
        if is_idempotent:
            idempotency_key = uuid.uuid4().hex
    payload, is_json_text, content_type = _payload(job)
    traceparent = current_traceparent()
    return PreparedJob(
        payload=payload,
        is_json=is_json_text,
        content_type=content_type,
        attributes=_attributes(job.attributes, traceparent),
        options=options,
        idempotency_key=str(idempotency_key) if idempotency_key is not None else None,
        traceparent=traceparent,
    )


def _payload(job: NewJob) -> tuple[bytes, bool, str]:
    content_type, payload = job.content_type, job.payload
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return bytes(payload), False, content_type or BYTES
    if content_type is None or is_json(content_type):
        return encode(payload), True, content_type or JSON
    if isinstance(payload, str):
        return payload.encode(), False, content_type
    text = f"a payload of the type {content_type} is bytes or a text, not {type(payload).__name__}"
    raise InvalidRequestError(text, field="payload")


def _attributes(given: Mapping[str, str] | None, traceparent: str | None) -> Mapping[str, str]:
    attributes = dict(given or {})
    for name, value in attributes.items():
        if not isinstance(value, str) or not _ATTRIBUTE_NAME.fullmatch(name):
            text = f"the attribute {name!r} is not a text, or its name is not valid"
            raise InvalidRequestError(text, field="attributes")
    if traceparent is not None:
        attributes.setdefault(ATTRIBUTE, traceparent)
    return attributes
