"""A job that a worker holds."""

from __future__ import annotations

import base64
import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from .._values import instant
from .ends import JobAborted

AbortReason = Literal["lease_lost", "cancel_requested", "max_run", "stopping"]
"""Why a handler should stop.

- `lease_lost`: another worker may have the job. The result of the handler has no effect.
- `cancel_requested`: the producer has cancelled the job. Any failure deletes it; a success makes it done.
- `max_run`: the handler has run for longer than the worker allows. The attempt has failed.
- `stopping`: the worker stops. The job is given back.
"""

_NO_ATTRIBUTES: Mapping[str, str] = {}


class Job:
    """A job that was reserved, and the lease on it."""

    __slots__ = ("_aborted", "_payload", "_reason", "attempt", "id", "lease", "queue", "raw")

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw
        """The job as the server wrote it."""
        self.id: str = raw["id"]
        """The id of the job."""
        self.queue: str = raw["queue"]
        """Its queue."""
        self.lease: str = raw["lease"]
        """The name of this delivery, for ack, fail, touch and release."""
        self.attempt: int = raw["attempt"]
        """The number of this delivery, from 1. It only grows: together with the id it is a fencing token."""
        self._reason: AbortReason | None = None
        self._aborted: threading.Event | None = None
        """Is made by the first handler that waits for it: few do."""
        encoded = raw.get("payload_base64")
        self._payload = raw.get("payload") if encoded is None else base64.b64decode(encoded)

    def __repr__(self) -> str:
        # Without the payload, which may be large or private.
        return f"<Job {self.id} queue={self.queue} attempt={self.attempt}>"

    @property
    def payload(self) -> Any:
        """The value of a payload that is JSON, else the bytes."""
        return self._payload

    @property
    def content_type(self) -> str:
        """The content type of the payload."""
        return str(self.raw["content_type"])

    @property
    def attributes(self) -> Mapping[str, str]:
        """The attributes that travel with the job."""
        attributes: Mapping[str, str] = self.raw.get("attributes", _NO_ATTRIBUTES)
        return attributes

    @property
    def key(self) -> str | None:
        """Its key, if it has one."""
        return self.raw.get("key")

    @property
    def group(self) -> str | None:
        """Its group, if it has one."""
        return self.raw.get("group")

    @property
    def failures(self) -> int:
        """How many attempts have failed."""
        return int(self.raw["failures"])

    @property
    def losses(self) -> int:
        """How often a worker was lost while it held the job."""
        return int(self.raw["losses"])

    @property
    def run_at(self) -> datetime:
        """When it was due."""
        return instant(self.raw["run_at"])

    @property
    def created_at(self) -> datetime:
        """When it was published."""
        return instant(self.raw["created_at"])

    @property
    def lease_until(self) -> datetime:
        """When the lease ends by the clock of the server, unless it is extended."""
        return instant(self.raw["lease_until"])

    @property
    def traceparent(self) -> str | None:
        """The span of this delivery, if the server traces it."""
        return self.raw.get("traceparent")

    @property
    def abort_reason(self) -> AbortReason | None:
        """Why the handler should stop. `None` if it should not."""
        return self._reason

    @property
    def is_aborted(self) -> bool:
        """Whether the handler should stop. A handler that runs in a thread looks at it now and then."""
        return self._reason is not None

    def raise_if_aborted(self) -> None:
        """Stops a handler that runs in a thread.

        Raises:
            JobAborted: The handler should stop. Let it pass.
        """
        if self._reason is not None:
            raise JobAborted(self._reason)

    def wait_for_abort(self, timeout: float | None = None) -> bool:
        """Sleeps up to so many seconds in a thread; returns whether the handler should stop."""
        if self._aborted is None:
            self._aborted = threading.Event()
        # The reason is read after the event is there, and `_abort` looks for the event after it has set the reason.
        return self._reason is not None or self._aborted.wait(timeout)

    def _abort(self, reason: AbortReason) -> bool:
        """Tells the handler to stop. Returns whether this is the first reason."""
        if self._reason is not None:
            return False
        self._reason = reason
        if self._aborted is not None:
            self._aborted.set()
        return True
