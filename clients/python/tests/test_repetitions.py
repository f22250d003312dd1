"""When requests are repeated, and how long the client waits before."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import httpx
import pytest

from tidegate import ConnectionError, RateLimitedError, RepeatLimits, ServerError, TidegateError
from tidegate._http.repeat import Repetitions

from .conftest import async_client, problem, published, sync_client

OK = httpx.Response(201, json=published())


def unavailable(applied: str = "unknown", **headers: str) -> httpx.Response:
    return problem(503, "storage_unavailable", applied, **headers)


class Script:
    """Answers requests with these answers, one after the other; raises exceptions."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_delays_are_doubled_up_to_5_s_and_made_longer_at_random() -> None:
    error = ConnectionError("broken", applied="no")
    for _ in range(50):
        repetitions = Repetitions(RepeatLimits(), "POST", safe=True)
        delays = [repetitions.delay_after(error) for _ in range(7)]
        for delay, least in zip(delays, (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0), strict=True):
            assert least <= delay <= 2 * least
        with pytest.raises(ConnectionError):
            repetitions.delay_after(error)


def test_a_retry_after_is_waited_for_up_to_30_s() -> None:
    slept: list[float] = []
    script = Script(unavailable(retry_after="30"), OK)
    assert sync_client(script, slept=slept).publish("q", 1).id == "J1"
    assert slept == [30.0]
    script = Script(unavailable(retry_after="31"))
    with pytest.raises(ServerError) as raised:
        sync_client(script).publish("q", 1)
    assert raised.value.retry_after == timedelta(seconds=31)


def test_a_retry_after_that_is_shorter_than_the_delay_changes_nothing() -> None:
    slept: list[float] = []
    sync_client(Script(unavailable(retry_after="0"), OK), slept=slept).publish("q", 1)
    assert 0.1 <= slept[0] <= 0.2


def test_a_request_is_repeated_seven_times() -> None:
    script = Script(*[httpx.ReadError("broken")] * 8)
    with pytest.raises(ConnectionError) as raised:
        sync_client(script).publish("q", 1, key="k")
    assert raised.value.applied == "unknown"
    assert len(script.requests) == 8


@pytest.mark.parametrize("status", [429, 500, 507, 400, 404])
def test_other_errors_are_returned(status: int) -> None:
    script = Script(problem(status, "some_code"))
    with pytest.raises(TidegateError):
        sync_client(script).publish("q", 1, key="k")
    assert len(script.requests) == 1


@pytest.mark.parametrize("status", [408, 502, 503, 504])
def test_an_answer_of_a_proxy_is_repeated_if_that_is_safe(status: int) -> None:
    script = Script(httpx.Response(status, text="<html>"), OK)
    assert sync_client(script).publish("q", 1).id == "J1"
    script = Script(httpx.Response(status, text="<html>"))
    with pytest.raises(TidegateError) as raised:
        sync_client(script).publish("q", 1, idempotent=False)
    assert raised.value.applied == "unknown"


def test_a_request_that_is_not_safe_is_repeated_only_if_nothing_was_sent() -> None:
    script = Script(httpx.ConnectError("refused"), unavailable("no"), OK)
    assert sync_client(script).publish("q", 1, idempotent=False).id == "J1"
    script = Script(httpx.ReadError("broken"))
    with pytest.raises(ConnectionError):
        sync_client(script).queues.purge("q", "dead")


def test_what_is_applied_is_not_repeated() -> None:
    script = Script(problem(504, "not_durable", "yes"))
    with pytest.raises(ServerError) as raised:
        sync_client(script).publish("q", 1, durability="fsync")
    assert raised.value.applied == "yes"


def test_repetitions_have_the_same_idempotency_key() -> None:
    script = Script(httpx.ReadError("broken"), unavailable(), OK)
    sync_client(script).publish("q", 1)
    assert len({request.headers["idempotency-key"] for request in script.requests}) == 1
    assert len(script.requests[0].headers["idempotency-key"]) == 32


def test_a_last_error_does_not_hide_that_an_answer_was_lost() -> None:
    script = Script(httpx.ReadError("broken"), problem(429, "queue_full"))
    with pytest.raises(ConnectionError) as raised:
        sync_client(script).publish("q", 1)
    assert raised.value.applied == "unknown"
    # A job that is not there is not there, however that came about.
    script = Script(httpx.ReadError("broken"), problem(404, "job_not_found"))
    with pytest.raises(TidegateError) as raised_by_cancel:
        sync_client(script).jobs.cancel("q", key="k")
    assert raised_by_cancel.value.status == 404


def test_a_client_without_repetitions() -> None:
    script = Script(httpx.ConnectError("refused"))
    with pytest.raises(ConnectionError):
        sync_client(script, repeat=RepeatLimits(repetitions=0)).publish("q", 1)


def test_the_client_for_asyncio_repeats_in_the_same_way() -> None:
    slept: list[float] = []
    script = Script(httpx.ConnectError("refused"), unavailable(retry_after="3"), problem(429, "queue_full"))
    client = async_client(script, slept=slept)

    async def run() -> None:
        with pytest.raises(RateLimitedError):
            await client.publish("q", 1, idempotent=False)

    script.answers[1] = unavailable("no", retry_after="3")
    asyncio.run(run())
    assert 0.1 <= slept[0] <= 0.2
    assert slept[1] == 3.0


def test_a_request_has_a_time_limit() -> None:
    async def answer(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(60)
        return OK

    async def run() -> None:
        client = async_client(answer)  # type: ignore[arg-type]
        object.__setattr__(client._transport.settings, "time_limit", 0.05)
        with pytest.raises(ConnectionError, match="no answer"):
            await client.publish("q", 1, idempotent=False)

    asyncio.run(run())
