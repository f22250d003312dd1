"""The ends of jobs travel with the next reserve, and are never lost."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import httpx
import pytest

from tidegate import AsyncClient, Dead, Job, Worker
from tidegate.testing import FakeServer

SECONDS = 10.0
Answer = Callable[[httpx.Request], httpx.Response]


class Wire:
    """Records the requests to the fake, and may answer instead of it."""

    def __init__(self, fake: FakeServer, instead: Callable[[httpx.Request], Answer | None] = lambda _: None) -> None:
        self.fake = fake
        self.instead = instead
        self.paths: Counter[str] = Counter()
        self.settled = 0
        http = httpx.AsyncClient(transport=httpx.MockTransport(self.answer))
        self.client = AsyncClient("http://fake.invalid", key="k", namespace="n", http=http)

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.paths[request.url.path.rpartition("/")[2]] += 1
        if b'"settle"' in request.content:
            settle = json.loads(request.content)["settle"]
            self.settled += len(settle.get("ack", ())) + len(settle.get("fail", ()))
        return (self.instead(request) or self.fake._answer)(request)


async def run_all(wire: Wire, jobs: int, slots: int) -> Counter[int]:
    """Runs so many jobs to their ends; counts how often each has run. 13 dies."""
    ran: Counter[int] = Counter()
    worker = Worker(wire.client, slots=slots)

    @worker.handler("q")
    async def handler(payload: int, job: Job) -> int:
        ran[payload] += 1
        if payload == 13:
            raise Dead("bad luck")
        return payload

    await wire.client.publish_batch("q", range(jobs))
    async with worker:
        deadline = time.monotonic() + SECONDS
        while any(job.state != "dead" for job in wire.fake.jobs("q")):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
    return ran


def test_a_reserve_with_ends_does_not_wait(fake: FakeServer) -> None:
    waits: set[tuple[bool, str]] = set()

    def instead(request: httpx.Request) -> None:
        if request.url.path.endswith("/reserve"):
            body = json.loads(request.content)
            waits.add(("settle" in body, body["wait"]))

    asyncio.run(run_all(Wire(fake, instead), 5, 1))
    assert waits == {(True, "0ms"), (False, "20000ms")}


def test_an_answer_that_cannot_be_read_stops_no_part_of_a_worker(fake: FakeServer) -> None:
    spoiled: set[str] = set()

    def spoils(request: httpx.Request) -> Answer | None:
        name = request.url.path.rpartition("/")[2]
        if name in spoiled or name not in ("reserve", "touch", "ack"):
            return None
        spoiled.add(name)
        return lambda _: httpx.Response(200, json=["no", "object"])

    async def run() -> int:
        wire = Wire(fake, spoils)
        worker = Worker(wire.client, slots=1, prefetch=1, lease=timedelta(milliseconds=300))
        runs = 0

        @worker.handler("q")
        async def handler(job: Job) -> None:
            nonlocal runs
            runs += 1
            await asyncio.sleep(1)

        await wire.client.publish("q", 1)
        async with worker:
            deadline = time.monotonic() + SECONDS
            while fake.jobs("q"):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)
        return runs

    assert asyncio.run(run()) == 1
    assert {"reserve", "touch"} <= spoiled


@pytest.mark.parametrize("slots", [1, 10])
def test_ends_travel_with_the_next_reserve(fake: FakeServer, slots: int) -> None:
    wire = Wire(fake)
    ran = asyncio.run(run_all(wire, 40, slots))
    assert ran == Counter(range(40))
    assert wire.settled == 40
    assert wire.paths["ack"] == wire.paths["fail"] == 0
    assert [job.history[0]["error"] for job in fake.jobs("q", state="dead")] == ["bad luck"]


def once(answer: Answer) -> Callable[[httpx.Request], Answer | None]:
    """Answers the first reserve with ends in this way."""
    answers = [answer]

    def instead(request: httpx.Request) -> Answer | None:
        if b'"settle"' not in request.content or not answers:
            return None
        return answers.pop()

    return instead


def breaks(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadError("broken")


def refuses(request: httpx.Request) -> httpx.Response:
    return httpx.Response(400, json={"status": 400, "code": "invalid_body", "detail": "why", "applied": "no"})


@pytest.mark.parametrize("answer", [breaks, refuses])
def test_ends_of_a_reserve_that_failed_are_reported_again(fake: FakeServer, answer: Answer) -> None:
    wire = Wire(fake)
    wire.instead = once(answer)
    ran = asyncio.run(run_all(wire, 20, 4))
    assert ran == Counter(range(20))
    assert wire.paths["ack"] >= 1


def test_a_stop_reports_the_ends_of_a_reserve_that_is_cut(fake: FakeServer) -> None:
    async def never(request: httpx.Request) -> httpx.Response:
        if b'"settle"' in request.content:
            await asyncio.sleep(60)
        return wire.answer(request)

    async def run() -> None:
        wire.client._transport._http = httpx.AsyncClient(transport=httpx.MockTransport(never))
        worker = Worker(wire.client, slots=1)
        ended = asyncio.Event()

        @worker.handler("q")
        async def handler(job: Job) -> None:
            ended.set()

        async with worker:
            await wire.client.publish("q", 1)
            await asyncio.wait_for(ended.wait(), SECONDS)
            await asyncio.sleep(0.05)
            assert len(fake.jobs("q")) == 1

    wire = Wire(fake)
    asyncio.run(run())
    assert fake.jobs("q") == []
    assert wire.paths["ack"] == 1
