"""The answer of the server instead of a success, as an error."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from .._json import decode
from ..errors import (
    AuthError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    RateLimitedError,
    ServerError,
    TidegateError,
)

_SHOWN_BYTES = 200
_CLASSES: dict[int, type[TidegateError]] = {
    401: AuthError,
    403: AuthError,
    404: NotFoundError,
    409: ConflictError,
    412: ConflictError,
    429: RateLimitedError,
}


def _class_of(status: int, code: str | None) -> type[TidegateError]:
    if status == 422 and code == "idempotency_key_reused":
        return ConflictError
    if status in _CLASSES:
        return _CLASSES[status]
    return InvalidRequestError if 400 <= status < 500 else ServerError


def retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """The header `Retry-After`: seconds, or a date."""
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    try:
        if text.isdecimal():
            return timedelta(seconds=int(text))
        until = parsedate_to_datetime(text) - datetime.now(timezone.utc)
    except (TypeError, ValueError, OverflowError):
        return None
    return max(until, timedelta(0))


def error_of_answer(status: int, headers: Mapping[str, str], body: bytes) -> TidegateError:
    """The error of an answer that is no success."""
    after = retry_after(headers)
    try:
        problem = decode(body)
    except ValueError:
        problem = None
    if isinstance(problem, dict) and isinstance(problem.get("code"), str):
        return error_of_problem(problem, status, after)
    # Probably of a proxy, which does not say whether the server has received the request.
    text = f"unexpected answer with status {status}: {body[:_SHOWN_BYTES].decode('utf-8', 'replace')}"
    return _class_of(status, None)(text, status=status, applied="unknown", retry_after=after)


def error_of_problem(
    problem: dict[str, Any], status: int | None = None, after: timedelta | None = None
) -> TidegateError:
    """The error of a problem document."""
    status = problem.get("status", 500) if status is None else status
    code = problem["code"]
    applied = problem.get("applied")
    return _class_of(status, code)(
        str(problem.get("detail", problem.get("title", code))),
        status=status,
        code=code,
        applied=applied if applied in ("no", "yes", "unknown") else "no",
        field=problem.get("field"),
        retry_after=after,
        job=problem.get("job"),
        request_id=problem.get("instance"),
    )
