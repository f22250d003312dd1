"""How a handler ends a job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ..errors import InvalidRequestError

if TYPE_CHECKING:
    from .job import Job


class JobEnd(Exception):
    """An end of a job other than success. Raise it, or return it."""


class RetryIn(JobEnd):
    """The attempt failed. The next one is after this time, unless this was the last one.

    Args:
        error: Why, as a text or an exception. The first 1,024 bytes are kept in the history of the job.
        delay: The time until the next attempt.
    """

    def __init__(self, error: str | BaseException, delay: timedelta) -> None:
        super().__init__(error_text(error))
        self.delay = _checked(delay)


class Dead(JobEnd):
    """No attempt can succeed: the job goes to the dead letter.

    Args:
        error: Why, as a text or an exception. The first 1,024 bytes are kept in the history of the job.
    """

    def __init__(self, error: str | BaseException) -> None:
        super().__init__(error_text(error))


class Snooze(JobEnd):
    """The job is due again after this time. This counts as no failure.

    Args:
        delay: The time until the job is due.
    """

    def __init__(self, delay: timedelta) -> None:
        super().__init__(f"snoozed for {delay}")
        self.delay = _checked(delay)


class JobAborted(Exception):
    """The handler should stop. `Job.raise_if_aborted` raises it in handlers that run in threads."""


@dataclass(frozen=True)
class Result:
    """The result of a job: any value that JSON has, or bytes with a content type."""

    value: Any
    content_type: str | None = None
    """By default `application/json`, and `application/octet-stream` for bytes."""


@dataclass(frozen=True)
class Ack:
    """A job that is done, with its result, for `Client.ack`."""

    lease: str | Job
    result: Any = None
    """Any value that JSON has, or bytes. `None` is no result. Up to 256 KiB."""
    content_type: str | None = None
    """The content type of bytes. Default: `application/octet-stream`."""


def _checked(delay: timedelta) -> timedelta:
    """A delay, so that a mistake is an error in the handler that makes it."""
    if not isinstance(delay, timedelta):
        raise InvalidRequestError(f"delay is not a timedelta: {delay!r}", field="delay")
    return delay


def error_text(error: str | BaseException) -> str:
    """The text of an error that is reported: its message, or its type if it has none."""
    text = str(error)
    # The message of a `KeyError` is the key alone.
    return repr(error) if isinstance(error, KeyError) or not text else text
