"""The worker, with the fake as its server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest

from tidegate import (
    AsyncClient,
    AuthError,
    Job,
    JobAbortRequested,
    JobEnded,
    NewJob,
    RetryIn,
    Snooze,
    Worker,
    WorkerEvent,
)
from tidegate.testing import FakeServer

SECONDS = 10.0


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def working(worker: Worker, test: Callable[[], Awaitable[None]]) -> None:
    async with worker:
        await asyncio.wait_for(test(), SECONDS)


def test_jobs_run_and_are_reported(fake: FakeServer) -> None:
    client = fake.async_client()
    worker = Worker(client, slots=4)
    events: list[WorkerEvent] = []
    worker.hook(events.append)
    ran: list[int] = []

    @worker.middleware
    async def outer(job: Job, call_next: Callable[[Job], Awaitable[Any]]) -> Any:
        return await call_next(job)

    @worker.handler("q")
    async def handler(payload: int) -> int:
        ran.append(payload)
        return payload

    async def test() -> None:
        for number in range(50):
            await client.publish("q", number)
        await until(lambda: not fake.jobs("q"))

    asyncio.run(working(worker, test))
    assert sorted(ran) == list(range(50))
    ends = [event for event in events if isinstance(event, JobEnded)]
    assert [event.end for event in ends] == ["done"] * 50


def test_no_more_jobs_than_slots_run(fake: FakeServer) -> None:
    client = fake.async_client()
    worker = Worker(client, slots=3)
    running = most = ended = 0

    @worker.handler("q")
    async def handler(job: Job) -> None:
        nonlocal running, most, ended
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        ended += 1

    async def test() -> None:
        await client.publish_batch("q", range(20))
        await until(lambda: ended == 20)

    asyncio.run(working(worker, test))
    assert most == 3


def test_a_stop_waits_for_handlers_and_gives_other_jobs_back(fake: FakeServer) -> None:
    client = fake.async_client()
    worker = Worker(client, slots=2, prefetch=1)
    aborted: list[str | None] = []
    started: list[str] = []

    @worker.handler("q")
    async def handler(payload: float, job: Job) -> None:
        started.append(job.id)
        try:
            await asyncio.sleep(payload)
        except asyncio.CancelledError:
            aborted.append(job.abort_reason)
            raise

    async def run() -> None:
        serving = asyncio.create_task(worker.serve())
        await client.publish_batch("q", [0.2, 30, 30])
        await until(lambda: len(started) == 2 and len(fake.jobs("q", state="leased")) == 3)
        worker.stop(grace=timedelta(seconds=0.5))
        await asyncio.wait_for(serving, SECONDS)

    asyncio.run(run())
    assert aborted == ["stopping"]
    left = fake.jobs("q")
    assert [(job.state, job.failures, job.losses) for job in left] == [("ready", 0, 0)] * 2


def test_a_worker_that_is_cancelled_gives_its_jobs_back(fake: FakeServer) -> None:
    client = fake.async_client()
    worker = Worker(client, slots=1, prefetch=1)
    aborted: list[str | None] = []

    @worker.handler("q")
    async def handler(job: Job) -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            aborted.append(job.abort_reason)
            raise

    async def run() -> None:
        serving = asyncio.create_task(worker.serve())
        await client.publish_batch("q", [1, 2])
        await until(lambda: len(fake.jobs("q", state="leased")) == 2)
        await asyncio.sleep(0.05)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(serving, SECONDS)

    asyncio.run(run())
    assert aborted == ["stopping"]
    assert [(job.state, job.failures) for job in fake.jobs("q")] == [("ready", 0)] * 2


@pytest.mark.parametrize("is_async", [True, False])
def test_a_handler_that_ends_the_process_has_failed(fake: FakeServer, is_async: bool) -> None:
    client = fake.async_client()
    worker = Worker(client)

    def exits(job: Job) -> None:
        raise SystemExit(3)

    async def exits_too(job: Job) -> None:
        raise SystemExit(3)

    worker.add("q", exits_too if is_async else exits)

    async def test() -> None:
        await client.publish("q", 1, max_attempts=1)
        await until(lambda: bool(fake.jobs("q", state="dead")))

    asyncio.run(working(worker, test))
    assert "SystemExit(3)" in fake.jobs("q")[0].history[0]["error"]


def test_an_end_that_cannot_be_written_is_a_failure(fake: FakeServer) -> None:
    client = fake.async_client()
    worker = Worker(client)

    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    @worker.handler("q")
    async def handler(payload: str) -> None:
        raise Mute if payload == "mute" else RetryIn("later", 30)  # type: ignore[arg-type]

    async def test() -> None:
        await client.publish_batch("q", [NewJob(name, max_attempts=1) for name in ("mute", "number")])
        await until(lambda: len(fake.jobs("q", state="dead")) == 2)

    asyncio.run(working(worker, test))
    errors = {job.history[0]["error"] for job in fake.jobs("q")}
    assert any("cannot be reported" in error for error in errors)
    assert any("delay is not a timedelta" in error for error in errors)


def test_a_cancel_aborts_the_handler(fake: FakeServer) -> None:
    client = fake.async_client()
    worker = Worker(client, lease=timedelta(milliseconds=100))
    events: list[WorkerEvent] = []
    worker.hook(events.append)

    @worker.handler("q")
    async def handler(job: Job) -> None:
        await asyncio.sleep(30)

    async def test() -> None:
        await client.publish("q", 1, key="k")
        await until(lambda: bool(fake.jobs("q", state="leased")))
        await client.jobs.cancel("q", key="k", running="ask")
        await until(lambda: not fake.jobs("q"))

    asyncio.run(working(worker, test))
    assert [event.reason for event in events if isinstance(event, JobAbortRequested)] == ["cancel_requested"]


def test_a_lease_that_is_lost_aborts_the_handler_and_is_not_reported(fake: FakeServer) -> None:
    client = fake.async_client()
    worker = Worker(client, lease=timedelta(milliseconds=100))
    ends: list[str] = []
    worker.hook(lambda event: ends.append(event.end) if isinstance(event, JobEnded) else None)

    @worker.handler("q")
    async def handler(job: Job) -> None:
        await asyncio.sleep(30)

    async def test() -> None:
        await client.publish("q", 1, key="k")
        await until(lambda: bool(fake.jobs("q", state="leased")))
        await client.jobs.cancel("q", key="k", running="revoke")
        await until(lambda: ends == ["lost"])

    asyncio.run(working(worker, test))


def test_max_run_fails_the_attempt_of_a_handler_that_does_not_stop(fake: FakeServer) -> None:
    client = fake.async_client()
    worker = Worker(client, max_run=timedelta(milliseconds=50), grace=timedelta(0))

    @worker.handler("q")
    def handler(job: Job) -> None:
        time.sleep(1.5)

    async def test() -> None:
        await client.publish("q", 1, max_attempts=1)
        await until(lambda: bool(fake.jobs("q", state="dead")))

    asyncio.run(working(worker, test))
    assert fake.jobs("q")[0].history[0]["error"] == "the handler did not end within 0.05 s"


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_refused_ends_the_worker(fake: FakeServer, status: int) -> None:
    worker = Worker(fake.async_client())
    worker.add("q", lambda job: None)
    fake.refuse_next(status, "key_invalid", times=100)
    with pytest.raises(AuthError):
        asyncio.run(asyncio.wait_for(worker.serve(), SECONDS))


def test_other_errors_of_a_reserve_are_repeated(fake: FakeServer) -> None:
    client = fake.async_client()
    worker = Worker(client)
    done = asyncio.Event()

    @worker.handler("q")
    async def handler(job: Job) -> None:
        done.set()

    async def test() -> None:
        await client.publish("q", 1)
        await done.wait()

    fake.refuse_next(500, "internal_error")
    asyncio.run(working_after_error(worker, test, fake))


async def working_after_error(worker: Worker, test: Callable[[], Awaitable[None]], fake: FakeServer) -> None:
    serving = asyncio.create_task(worker.serve())
    await until(lambda: not fake._refusals)
    await asyncio.wait_for(test(), SECONDS)
    worker.stop()
    await serving


def test_a_result_that_is_refused_does_not_hold_up_others(fake: FakeServer) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if b"too large" in request.content and b'"result"' in request.content:
            return httpx.Response(413, json={"status": 413, "code": "body_too_large", "detail": "too large"})
        return fake._answer(request)

    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    client = AsyncClient("http://fake.invalid", key="k", namespace="n", http=http)
    worker = Worker(client, slots=4)

    @worker.handler("q")
    async def handler(payload: str) -> str:
        return payload

    async def test() -> None:
        await client.publish_batch("q", ["a", "too large", "b"])
        await until(lambda: [job.state for job in fake.jobs("q")] == ["dead"])

    asyncio.run(working(worker, test))
    error = fake.jobs("q")[0].history[0]["error"]
    assert error.startswith("the work is done, but the result was not accepted")


def test_a_job_may_be_snoozed(fake: FakeServer) -> None:
    client = fake.async_client()
    worker = Worker(client)

    @worker.handler("q")
    async def handler(job: Job) -> Snooze:
        return Snooze(timedelta(hours=1))

    async def test() -> None:
        await client.publish("q", 1)
        await until(lambda: bool(fake.jobs("q", state="delayed")))

    asyncio.run(working(worker, test))
    assert fake.jobs("q")[0].failures == 0
