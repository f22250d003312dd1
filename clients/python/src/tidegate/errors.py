"""Errors of requests."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

Applied = Literal["no", "yes", "unknown"]
"""Whether a request that failed has changed something all the same."""


class TidegateError(Exception):
    """A request has failed. The class follows the answer of the server; all classes have the same attributes."""

    def __init__(
        self,
        detail: str,
        *,
        status: int | None = None,
        code: str | None = None,
        applied: Applied = "no",
        field: str | None = None,
        retry_after: timedelta | None = None,
        job: str | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        """The reason, for people."""
        self.status = status
        """The HTTP status. `None` if there was no answer."""
        self.code = code
        """The machine-readable reason of the server, such as `key_taken`. `None` if the server gave none."""
        self.applied: Applied = applied
        """Whether the change was made: `no`, `yes`, or `unknown`."""
        self.field = field
        """The invalid field, if there is one."""
        self.retry_after = retry_after
        """When the same request may succeed, from the time of the answer on: the header `Retry-After`."""
        self.job = job
        """The id of the job that the error is about, if the server named it."""
        self.request_id = request_id
        """The id of the request in the log of the server."""

    def __str__(self) -> str:
        labels = [str(label) for label in (self.status, self.code) if label is not None]
        text = f"{' '.join(labels)}: {self.detail}" if labels else self.detail
        return f"{text} (field {self.field})" if self.field else text


class AuthError(TidegateError):
    """The API key is missing or not valid, or does not have the scope or the namespace (401, 403)."""


class NotFoundError(TidegateError):
    """There is no such job, schedule or key (404)."""


class ConflictError(TidegateError):
    """The state of the server does not allow the request (409, 412, 422 `idempotency_key_reused`)."""


class RateLimitedError(TidegateError):
    """The queue is full, or too many requests were sent (429). `retry_after` says when to try again."""


class InvalidRequestError(TidegateError):
    """The request is not valid (other 4xx). Without `status`, the client has found the mistake and sent nothing."""


class ServerError(TidegateError):
    """The server has failed (5xx), or its answer cannot be read."""


class ConnectionError(TidegateError):
    """There was no answer. `applied` is `no` if nothing was sent, else `unknown`."""
