"""Payloads and results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._json import decode, is_json


@dataclass(frozen=True)
class Content:
    """The payload or the result of a job: JSON, bytes with a content type, or nothing."""

    body: bytes
    """The bytes. Empty if a job is done without a result."""
    content_type: str | None
    """The content type. `None` if a job is done without a result."""

    @property
    def value(self) -> Any:
        """The value of JSON, else the bytes. `None` if a job is done without a result.

        Raises:
            ValueError: The content type says JSON, but the bytes are none.
        """
        if self.content_type is None:
            return None
        return decode(self.body) if is_json(self.content_type) else self.body


@dataclass(frozen=True)
class Pending:
    """The job is not done yet. It stays in its queue: ask for its result later, or cancel it."""

    id: str
    """The id of the job."""
