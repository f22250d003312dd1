"""How the run of a handler has ended, and its report."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from .._calls.leases import ack_item
from .._json import encode
from .._values import duration_text
from ..errors import InvalidRequestError
from .ends import Dead, JobAborted, JobEnd, Result, RetryIn, Snooze, error_text
from .job import Job

_ERROR_CHARACTERS_MAX = 1024
"""The server cuts an error after so many bytes."""


@dataclass(frozen=True)
class RunEnd:
    """The end of a run, as it is reported."""

    lease: str
    kind: Literal["ack", "fail", "release"]
    item: bytes
    """The entry of the request, as JSON."""
    error: str | None = None
    is_dead: bool = False
    delay: str | None = None
    """The delay of a release."""


def done(job: Job, value: Any) -> RunEnd:
    """The job is done, with this result."""
    content_type = None
    if isinstance(value, Result):
        value, content_type = value.value, value.content_type
    try:
        return RunEnd(job.lease, "ack", ack_item(job.lease, value, content_type))
    except InvalidRequestError as error:
        # The work is done, and would be done again.
        return failed(job.lease, error.detail, is_dead=True)


def failed(lease: str, error: str, *, retry_in: timedelta | None = None, is_dead: bool = False) -> RunEnd:
    """The attempt has failed."""
    # Half of a surrogate pair is in no UTF-8.
    text = error[:_ERROR_CHARACTERS_MAX].encode("utf-8", "replace").decode()
    fields: dict[str, Any] = {"lease": lease, "error": text}
    if retry_in is not None:
        fields["retry_in"] = duration_text("retry_in", max(retry_in, timedelta(0)))
    if is_dead:
        fields["dead"] = True
    return RunEnd(lease, "fail", encode(fields), error=text, is_dead=is_dead)


def released(lease: str, delay: timedelta | None = None) -> RunEnd:
    """The job is given back."""
    text = None if delay is None else duration_text("delay", max(delay, timedelta(0)))
    return RunEnd(lease, "release", encode(lease), delay=text)


def too_long(job: Job, max_run: float) -> RunEnd:
    """The handler has run for too long."""
    return failed(job.lease, f"the handler did not end within {max_run:g} s")


def end_of(task: asyncio.Task[Any], job: Job, max_run: float | None) -> RunEnd:
    """The end of the run of a handler."""
    if task.cancelled():
        return _aborted(job, max_run)
    error = task.exception()
    end = task.result() if error is None else error
    if isinstance(end, JobEnd):
        return _asked(job, end)
    if error is None:
        return done(job, end)
    if job.abort_reason == "stopping" or (isinstance(error, JobAborted) and job.is_aborted):
        # The error probably comes of the abort, which counts as no failure when the worker stops.
        return _aborted(job, max_run)
    return failed(job.lease, error_text(error))


def _asked(job: Job, end: JobEnd) -> RunEnd:
    if isinstance(end, Snooze):
        return released(job.lease, end.delay)
    if isinstance(end, RetryIn):
        return failed(job.lease, str(end), retry_in=end.delay)
    return failed(job.lease, str(end), is_dead=isinstance(end, Dead))


def _aborted(job: Job, max_run: float | None) -> RunEnd:
    reason = job.abort_reason
    if reason == "max_run":
        return too_long(job, max_run or 0.0)
    if reason is None:
        return failed(job.lease, "the handler was cancelled")
    # After a cancel that was requested, this deletes the job.
    return released(job.lease)
