"""Publishes that meet are sent together."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import httpx
import pytest

from tidegate import (
    Client,
    ConflictError,
    InvalidRequestError,
    PublishedJob,
    RateLimitedError,
    RepeatLimits,
    ServerError,
    TidegateError,
)
from tidegate._publish.gather import BatchRun, Lanes
from tidegate._publish.new_job import NewJob, prepare

from .conftest import async_client, problem, published, sync_client

SECONDS = 10


def number_of(request: httpx.Request) -> int:
    return int(json.loads(request.content))


def results(request: httpx.Request) -> httpx.Response:
    """A job for each payload; 13 has bad luck."""
    if not request.url.path.endswith("/batch"):
        return httpx.Response(201, json=published(number_of(request)))
    numbers = [job["payload"] for job in json.loads(request.content)["jobs"]]
    refused = {"problem": {"status": 409, "code": "key_taken", "detail": "why"}}
    return httpx.Response(200, json={"results": [refused if n == 13 else published(n) for n in numbers]})


class Gate:
    """Holds back the first request until the others wait for it."""

    def __init__(self, answer: Callable[[httpx.Request], httpx.Response] = results) -> None:
        self.answer = answer
        self.entered = threading.Event()
        self.opened = threading.Event()
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if len(self.requests) == 1:
            self.entered.set()
            assert self.opened.wait(SECONDS)
        return self.answer(request)


def waiting(client: Client) -> int:
    return sum(len(lane) for lane in client._publisher._lanes._lanes.values())


def publish_together(client: Client, gate: Gate, numbers: list[int]) -> list[Future[PublishedJob]]:
    """Publishes 0 first, and these numbers while that is in flight."""
    with ThreadPoolExecutor(len(numbers) + 1) as threads:
        futures = [threads.submit(client.publish, "q", 0)]
        assert gate.entered.wait(SECONDS)
        for number in numbers:
            before = waiting(client)
            futures.append(threads.submit(client.publish, "q", number))
            while waiting(client) == before:
                pass
        gate.opened.set()
    return futures


def test_publishes_of_threads_that_meet_are_one_batch() -> None:
    gate = Gate()
    client = sync_client(gate)
    futures = publish_together(client, gate, [1, 2, 3])
    assert [future.result().id for future in futures] == ["J0", "J1", "J2", "J3"]
    assert [request.url.path for request in gate.requests] == [
        "/v1/shop/queues/q/jobs",
        "/v1/shop/queues/q/jobs/batch",
    ]
    assert client._publisher._lanes._lanes == {}


def test_a_publish_that_meets_one_other_is_sent_alone() -> None:
    gate = Gate()
    publish_together(sync_client(gate), gate, [1])
    assert [request.url.path for request in gate.requests] == ["/v1/shop/queues/q/jobs"] * 2


def test_each_caller_gets_its_own_result_or_error() -> None:
    gate = Gate()
    futures = publish_together(sync_client(gate), gate, [1, 13])
    assert futures[1].result().id == "J1"
    assert isinstance(futures[2].exception(), ConflictError)


def test_a_batch_that_is_refused_is_sent_one_by_one() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/batch") or number_of(request) == 2:
            return problem(400, "invalid_body")
        return results(request)

    gate = Gate(answer)
    futures = publish_together(sync_client(gate), gate, [1, 2, 3])
    assert [future.result().id for future in (futures[1], futures[3])] == ["J1", "J3"]
    assert isinstance(futures[2].exception(), InvalidRequestError)


def test_the_error_of_a_batch_is_the_error_of_all() -> None:
    gate = Gate(lambda request: problem(507, "storage_full"))
    futures = publish_together(sync_client(gate), gate, [1, 2])
    errors = [future.exception() for future in futures]
    assert all(isinstance(error, ServerError) for error in errors)
    assert len(set(map(id, errors))) == 3


def test_a_mistake_in_one_job_is_the_error_of_its_caller_only() -> None:
    gate = Gate()
    client = sync_client(gate)
    with ThreadPoolExecutor(3) as threads:
        futures = [threads.submit(client.publish, "q", 0)]
        assert gate.entered.wait(SECONDS)
        futures.append(threads.submit(client.publish, "q", 1))
        futures.append(threads.submit(client.publish, "q", 2, group=object()))  # type: ignore[arg-type]
        while waiting(client) < 2:
            pass
        gate.opened.set()
    assert futures[1].result().id == "J1"


def test_a_body_that_is_too_large_for_a_proxy_is_sent_in_parts() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/batch"):
            return httpx.Response(413, text="<html>")
        return results(request)

    gate = Gate(answer)
    futures = publish_together(sync_client(gate), gate, [1, 2])
    assert [future.result().id for future in futures] == ["J0", "J1", "J2"]


def test_jobs_that_cannot_be_stored_for_the_moment_are_sent_again() -> None:
    batches: list[list[int]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/batch"):
            return results(request)
        numbers = [job["payload"] for job in json.loads(request.content)["jobs"]]
        batches.append(numbers)
        if len(batches) > 1:
            return results(request)
        lost = {"problem": {"status": 503, "code": "storage_unavailable", "applied": "unknown"}}
        return httpx.Response(200, json={"results": [lost if n == 2 else published(n) for n in numbers]})

    gate = Gate(answer)
    slept: list[float] = []
    futures = publish_together(sync_client(gate, slept=slept), gate, [1, 2, 3])
    assert [future.result().id for future in futures] == ["J0", "J1", "J2", "J3"]
    assert batches == [[1, 2, 3], [2]]
    assert len(slept) == 1


def test_a_job_of_a_batch_is_repeated_seven_times_and_may_be_stored() -> None:
    unknown = ServerError("why", status=503, applied="unknown")
    run = BatchRun([prepare(NewJob(1)), prepare(NewJob(2))], RepeatLimits())
    stored = PublishedJob.of(published(1))
    assert run.take([stored, unknown]) is not None
    assert [run.take([unknown]) is None for _ in range(7)] == [False] * 6 + [True]
    assert run.ended() == [stored, unknown]
    run = BatchRun([prepare(NewJob(1))], RepeatLimits())
    assert run.take([unknown]) is not None
    assert run.ended([RateLimitedError("full", status=429)]) == [unknown]
    unsafe = BatchRun([prepare(NewJob(1, idempotent=False))], RepeatLimits())
    assert unsafe.take([unknown]) is None


@pytest.mark.parametrize("failure", [{"results": []}, RuntimeError("closed")])
def test_a_batch_without_results_leaves_nobody_waiting(failure: object) -> None:
    async def answer(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0.01)
        if not request.url.path.endswith("/batch"):
            return results(request)
        if isinstance(failure, Exception):
            raise failure
        return httpx.Response(200, json=failure)

    async def run() -> None:
        client = async_client(answer)  # type: ignore[arg-type]
        ended = await asyncio.wait_for(
            asyncio.gather(*(client.publish("q", n) for n in range(3)), return_exceptions=True), SECONDS
        )
        assert [isinstance(end, TidegateError) for end in ended] == [False, True, True]
        assert {end.applied for end in ended if isinstance(end, TidegateError)} == {"unknown"}
        assert (await client.publish("q", 4)).id == "J4"

    asyncio.run(run())


class Entry:
    def __init__(self, payload: object) -> None:
        self.job = prepare(NewJob(payload))


def test_a_batch_has_up_to_100_jobs_and_1_mib() -> None:
    lanes: Lanes[Entry] = Lanes()
    lane = ("q", True)
    assert lanes.enter(lane, Entry(0))
    for number in range(101):
        assert not lanes.enter(lane, Entry(number))
    assert [len(lanes.next_batch(lane)) for _ in range(3)] == [100, 1, 0]
    assert lanes.enter(lane, Entry(0))
    for size in (400_000, 500_000, 400_000, 2_000_000, 1):
        lanes.enter(lane, Entry("x" * size))
    assert [len(lanes.next_batch(lane)) for _ in range(4)] == [2, 1, 1, 1]


def test_publishes_of_tasks_that_meet_are_one_batch() -> None:
    requests: list[httpx.Request] = []

    async def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        await asyncio.sleep(0.02)
        return results(request)

    async def run() -> None:
        client = async_client(answer)  # type: ignore[arg-type]
        tasks = [asyncio.create_task(client.publish("q", number)) for number in (0, 1, 13, 3, 4)]
        await asyncio.sleep(0)
        tasks[3].cancel()
        done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), SECONDS)
        assert [result.id for result in (done[0], done[1], done[4])] == ["J0", "J1", "J4"]  # type: ignore[union-attr]
        assert isinstance(done[2], ConflictError)
        assert isinstance(done[3], asyncio.CancelledError)
        assert [len(json.loads(request.content)["jobs"]) for request in requests[1:]] == [3]

    asyncio.run(run())


def test_a_caller_that_is_cancelled_stops_no_other() -> None:
    async def answer(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0.02)
        return results(request)

    async def run() -> None:
        client = async_client(answer)  # type: ignore[arg-type]
        first = asyncio.create_task(client.publish("q", 0))
        others = [asyncio.create_task(client.publish("q", number)) for number in (1, 2)]
        await asyncio.sleep(0.005)
        first.cancel()
        done = await asyncio.wait_for(asyncio.gather(*others), SECONDS)
        assert [job.id for job in done] == ["J1", "J2"]
        with pytest.raises(asyncio.CancelledError):
            await first
        assert client._publisher._lanes._lanes == {}

    asyncio.run(run())


def test_publishes_that_are_not_safe_do_not_join_those_that_are() -> None:
    paths: list[str] = []

    async def answer(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.path)
        await asyncio.sleep(0.02)
        return results(request)

    async def run() -> None:
        client = async_client(answer)  # type: ignore[arg-type]
        await asyncio.gather(client.publish("q", 1), client.publish("q", 2, idempotent=False), client.publish("r", 3))

    asyncio.run(run())
    assert not any(path.endswith("/batch") for path in paths)
