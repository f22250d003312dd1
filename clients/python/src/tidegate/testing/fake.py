"""A server in memory."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import httpx

from .._json import JSON, encode
from .._values import instant_ms
from ..async_client import AsyncClient
from ..client import Client
from ..worker.handlers import JobRunner
from ..worker.job import Job
from ..worker.outcome import RunEnd, end_of
from ..worker.report_calls import report_call
from ..worker.worker import Worker
from .clock import FakeClock
from .jobs import FakeJob
from .routes import Routes
from .store import Store

_URL, _KEY, _NAMESPACE = "http://fake.invalid", "tg_fake", "fake"
_RUNS_MAX = 10_000
_ANY = object()


@dataclass(frozen=True)
class PublishRecord:
    """A publish that the fake has received, whatever has become of its job."""

    id: str
    """The id of the job that was created or found."""
    queue: str
    payload: Any
    """The value of JSON, else the bytes."""
    key: str | None
    run_at: datetime
    """When the job was due then."""
    attributes: dict[str, str]
    options: dict[str, Any]
    """The options of the publish, as the server reads them."""


class FakeServer:
    """A server in memory, for tests of publishers and handlers. Its clock stands still until it is moved.

    Your code gets the real `Client` or `AsyncClient` with an HTTP transport that ends here. The fake knows publishes,
    calls, single jobs, leases, the counts of queues, purge and respawn; other requests fail with the code
    `not_in_fake`. It has no policies, rates, groups, limits or schedules, and delays of retries have no random part.
    For these, start a `Server`.
    """

    def __init__(self, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        """The clock, which `clock.advance` moves."""
        self._store = Store(self.clock)
        self._published: list[PublishRecord] = []
        self._routes = Routes(self._store, self._record)
        self._lock = threading.Lock()
        self._refusals: deque[httpx.Response] = deque()

    def client(self) -> Client:
        """A client of the fake."""
        http = httpx.Client(transport=httpx.MockTransport(self._answer))
        return Client(_URL, key=_KEY, namespace=_NAMESPACE, http=http)

    def async_client(self) -> AsyncClient:
        """A client of the fake for asyncio."""
        http = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))
        return AsyncClient(_URL, key=_KEY, namespace=_NAMESPACE, http=http)

    def refuse_next(self, status: int, code: str, *, times: int = 1) -> None:
        """Answers the next requests with an error, such as 429 `queue_full`. Nothing is changed by them."""
        problem = {"status": status, "code": code, "detail": f"the test wants {code}", "applied": "no"}
        for _ in range(times):
            response = httpx.Response(status, content=encode(problem), headers={"content-type": JSON})
            self._refusals.append(response)

    def published(self, queue: str | None = None) -> list[PublishRecord]:
        """All publishes to a queue, or to all queues, in their order."""
        with self._lock:
            return [record for record in self._published if queue in (None, record.queue)]

    def jobs(self, queue: str | None = None, *, state: str | None = None) -> list[FakeJob]:
        """The jobs that there are at the time of the clock."""
        with self._lock:
            return [job for job in self._store.jobs(queue) if state in (None, job.state)]

    def assert_published(
        self,
        queue: str,
        payload: Any = _ANY,
        *,
        key: Any = _ANY,
        delay: timedelta | None = None,
        run_at: datetime | None = None,
        count: int | None = None,
    ) -> list[PublishRecord]:
        """Fails unless jobs like this were published to the queue. Returns them.

        Args:
            queue: The queue.
            payload: The payload. Default: any.
            key: The key; `None` for no key. Default: any.
            delay: The delay of the publish.
            run_at: When the job was due.
            count: How many such publishes there are. Default: at least one.
        """
        found = [
            record
            for record in self.published(queue)
            if (payload is _ANY or record.payload == payload)
            and (key is _ANY or record.key == key)
            and (delay is None or record.options.get("delay") == f"{delay // _MS}ms")
            and (run_at is None or instant_ms("run_at", record.run_at) == instant_ms("run_at", run_at))
        ]
        is_as_expected = bool(found) if count is None else len(found) == count
        if not is_as_expected:
            others = "\n".join(f"  {record}" for record in self.published(queue)) or "  none"
            wanted = "at least 1" if count is None else str(count)
            raise AssertionError(f"{len(found)} publishes to {queue} match, and not {wanted}; all of them:\n{others}")
        return found

    def run_due(self, worker: Worker) -> list[tuple[Job, RunEnd]]:
        """Runs the handlers of a worker for all jobs that are due at the time of the clock, one after the other.

        Jobs that become due by that are run, too. Must not be called in a running event loop: use `run_due_async`.

        Returns:
            The jobs, and how they have ended: `kind` is `ack`, `fail` or `release`.
        """
        return asyncio.run(self.run_due_async(worker))

    async def run_due_async(self, worker: Worker) -> list[tuple[Job, RunEnd]]:
        """As `run_due`, in a running event loop."""
        runners = worker._runners()
        ends: list[tuple[Job, RunEnd]] = []
        client = self.async_client()
        while len(ends) < _RUNS_MAX:
            jobs = await client.reserve(list(runners))
            if not jobs:
                return ends
            for job in jobs:
                end = await _run(runners[job.queue], job)
                await _report(client, end)
                ends.append((job, end))
        raise AssertionError(f"{_RUNS_MAX} jobs were due: does a handler publish its own job again?")

    def _answer(self, request: httpx.Request) -> httpx.Response:
        request.read()
        with self._lock:
            if self._refusals:
                return self._refusals.popleft()
            return self._routes.answer(request)

    def _record(self, job: FakeJob) -> None:
        self._published.append(
            PublishRecord(
                id=job.id,
                queue=job.queue,
                payload=job.content.value,
                key=job.key,
                run_at=datetime.fromtimestamp(job.run_ms / 1000, timezone.utc),
                attributes=job.attributes,
                options=job.options,
            )
        )


_MS = timedelta(milliseconds=1)


async def _run(runner: JobRunner, job: Job) -> RunEnd:
    task = asyncio.get_running_loop().create_task(runner(job))
    await asyncio.wait([task])
    return end_of(task, job, None)


async def _report(client: AsyncClient, end: RunEnd) -> None:
    await client._transport.send(report_call(end.kind, [end.item], end.delay))
