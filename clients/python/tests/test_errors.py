"""The errors of answers."""

from __future__ import annotations

import copy
from datetime import timedelta

import httpx
import pytest

import tidegate
from tidegate import TidegateError

from .conftest import problem, sync_client


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_parameter", tidegate.InvalidRequestError),
        (401, "key_invalid", tidegate.AuthError),
        (403, "scope_missing", tidegate.AuthError),
        (404, "job_not_found", tidegate.NotFoundError),
        (405, "method_not_allowed", tidegate.InvalidRequestError),
        (409, "key_taken", tidegate.ConflictError),
        (412, "version_mismatch", tidegate.ConflictError),
        (413, "payload_too_large", tidegate.InvalidRequestError),
        (422, "idempotency_key_reused", tidegate.ConflictError),
        (422, "another_code", tidegate.InvalidRequestError),
        (429, "queue_full", tidegate.RateLimitedError),
        (500, "internal_error", tidegate.ServerError),
        (507, "storage_full", tidegate.ServerError),
    ],
)
def test_the_class_follows_the_answer(status: int, code: str, kind: type[TidegateError]) -> None:
    client = sync_client(lambda _: problem(status, code, retry_after="2"))
    with pytest.raises(TidegateError) as raised:
        client.jobs.show("q", "J1")
    error = raised.value
    assert type(error) is kind
    assert (error.status, error.code, error.applied, error.detail) == (status, code, "no", "why")
    assert error.retry_after == timedelta(seconds=2)
    assert error.request_id == "R"
    assert str(error) == f"{status} {code}: why"
    assert copy.copy(error).__dict__ == error.__dict__


def test_a_redirect_is_an_error() -> None:
    client = sync_client(lambda _: httpx.Response(302, headers={"location": "http://other"}))
    with pytest.raises(tidegate.ServerError) as raised:
        client.jobs.show("q", "J1")
    assert raised.value.status == 302


def test_an_answer_that_is_not_json_is_an_error() -> None:
    client = sync_client(lambda _: httpx.Response(200, text="<html>"))
    with pytest.raises(tidegate.ServerError, match="not JSON"):
        client.jobs.show("q", "J1")
