"""The client for asyncio."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx

from ._calls import leases
from ._http.async_transport import AsyncTransport
from ._http.repeat import RepeatLimits
from ._http.settings import TIME_LIMIT, Settings
from ._publish.calls import REQUEST_WAIT, BatchResult, batch_call, call_call, prepared_batch
from ._publish.gather_async import AsyncPublisher
from ._publish.new_job import NewJob, prepare
from ._values import seconds
from .answers import Outcome, PublishedJob
from .content import Content, Pending
from .options import PublishOptions
from .resources.jobs import AsyncJobs
from .resources.keys import AsyncKeys
from .resources.queues import AsyncQueues
from .resources.schedules import AsyncSchedules
from .worker.ends import Ack
from .worker.job import Job

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

_NO_WAIT = timedelta(0)


class AsyncClient:
    """A client for asyncio. All tasks of one event loop may share it; make one for a process.

    Args:
        url: The server, such as `https://tidegate.example.com`. Default: the variable `TIDEGATE_URL`.
        key: The API key. Default: the variable `TIDEGATE_KEY`.
        namespace: The namespace. Default: the variable `TIDEGATE_NAMESPACE`.
        time_limit: How long one request may take, in addition to its `wait`.
        repeat: How often requests are repeated after errors.
        http: A client of httpx with other settings for TLS, proxies or connections. You close it.

    Raises:
        InvalidRequestError: A setting is missing or not valid. No request is sent.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        namespace: str | None = None,
        time_limit: timedelta = TIME_LIMIT,
        repeat: RepeatLimits | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        settings = Settings.of(url, key, namespace, time_limit, repeat)
        self._transport = AsyncTransport(settings, http)
        self._publisher = AsyncPublisher(self._transport)
        self.jobs = AsyncJobs(self._transport)
        """Jobs, as their producers see them."""
        self.queues = AsyncQueues(self._transport)
        """Queues as a whole, and their policies."""
        self.schedules = AsyncSchedules(self._transport)
        """Schedules, which publish jobs."""
        self.keys = AsyncKeys(self._transport)
        """API keys."""

    def __repr__(self) -> str:
        # Without the key, which is a secret.
        return f"<AsyncClient {self._transport.settings.base}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._transport.close()

    async def publish(
        self,
        queue: str,
        payload: Any = None,
        *,
        content_type: str | None = None,
        attributes: Mapping[str, str] | None = None,
        **options: Unpack[PublishOptions],
    ) -> PublishedJob:
        """Publishes a job.

        While a publish to the queue is in flight in another task, this one waits for it, and is sent together with
        others. A publish without a key gets a random idempotency key, so that the client may repeat it; say
        `idempotent=False` to prevent that.

        Args:
            queue: The queue.
            payload: Any value that JSON has, a dataclass or a pydantic model; or bytes. Up to 1 MiB.
            content_type: By default `application/json`, and `application/octet-stream` for bytes.
            attributes: Up to 32 names and values that travel with the job.
            **options: See `PublishOptions`.

        Raises:
            ConflictError: The key is taken (`key_taken`), the queue is closed (`queue_closed`), or the namespace is
                full (`namespace_full`).
            RateLimitedError: The queue is full (`queue_full`), or the rate of the namespace is reached.
            InvalidRequestError: The job is not valid.
        """
        job = NewJob(payload, content_type=content_type, attributes=attributes, **options)
        return await self._publisher.publish(queue, prepare(job))

    async def publish_batch(
        self, queue: str, jobs: Iterable[NewJob | Any], *, atomic: bool = False
    ) -> list[BatchResult]:
        """Publishes up to 1,000 jobs in one request.

        Args:
            queue: The queue.
            jobs: `NewJob`, or a payload for a job without options.
            atomic: Stores all jobs or none. At most 64 jobs.

        Returns:
            A published job or an error for each job, in order.

        Raises:
            TidegateError: The request failed. With `atomic`, also if one of the jobs cannot be stored.
        """
        prepared = prepared_batch(jobs)
        if not prepared:
            return []
        return await self._transport.send(batch_call(queue, prepared, atomic=atomic))

    async def call(
        self,
        queue: str,
        payload: Any = None,
        *,
        wait: timedelta = timedelta(seconds=20),
        content_type: str | None = None,
        attributes: Mapping[str, str] | None = None,
        **options: Unpack[PublishOptions],
    ) -> Content | Pending:
        """Publishes a job, and waits up to `wait` for its result. Needs the scope `read` besides `publish`.

        A job with a key that exists already is waited for. A wait of more than 20 s takes several requests. Arguments
        and errors are the same as in `publish`.

        Returns:
            `Content`, or `Pending` if the job is not done in time: then it stays in its queue.

        Raises:
            ConflictError: The job is dead (`job_dead`).
            NotFoundError: The job was cancelled.
        """
        job = NewJob(payload, content_type=content_type, attributes=attributes, **options)
        total = seconds("wait", wait)
        deadline, limit = time.monotonic() + total, total + self._transport.settings.time_limit
        request = call_call(queue, prepare(job), min(total, REQUEST_WAIT), limit)
        found = await self._transport.send(request)
        left = deadline - time.monotonic()
        if isinstance(found, Content) or left <= 0:
            return found
        return await self.jobs.result(queue, found.id, wait=timedelta(seconds=left))

    async def reserve(
        self,
        queues: Sequence[str] | Mapping[str, int],
        *,
        max_jobs: int = 1,
        wait: timedelta = _NO_WAIT,
        lease: timedelta | None = None,
        worker: str | None = None,
    ) -> list[Job]:
        """Reserves ready jobs. A `Worker` does this for you.

        Args:
            queues: Up to 16 queues, in the order in which the server looks into them; or queues with their weights.
            max_jobs: 1 to 256.
            wait: How long the server waits for a job, up to 24 h.
            lease: How long the jobs are leased, 100 ms to 24 h. Default: as the job, or the policy of its queue says.
            worker: A name with which the server lists the jobs.

        Returns:
            The jobs. None if no job was ready in time.
        """
        return await self._transport.send(leases.reserve(queues, max_jobs, wait, lease, worker))

    async def ack(self, jobs: Iterable[str | Job | Ack]) -> list[Outcome]:
        """Acknowledges up to 1,000 jobs: leases, jobs, or `Ack` with a result. One outcome for each, in order.

        `gone` is a success, too: the ack was repeated.
        """
        return await self._transport.send(leases.ack(jobs))

    async def fail(
        self,
        jobs: Iterable[str | Job],
        error: str,
        *,
        retry_in: timedelta | None = None,
        dead: bool = False,
    ) -> list[Outcome]:
        """Reports attempts that failed, up to 1,000. One outcome for each, in order.

        Args:
            jobs: Jobs, or their leases.
            error: Why. The first 1,024 bytes are kept in the history of the job.
            retry_in: The time until the next attempt. Default: by the retry policy.
            dead: No attempt can succeed: the jobs go to the dead letter.
        """
        return await self._transport.send(leases.fail(jobs, error, retry_in, dead))

    async def touch(self, jobs: Iterable[str | Job], *, lease: timedelta | None = None) -> list[Outcome]:
        """Extends up to 1,000 leases to this length from now on. One outcome for each, in order."""
        return await self._transport.send(leases.touch(jobs, lease))

    async def release(self, jobs: Iterable[str | Job], *, delay: timedelta | None = None) -> list[Outcome]:
        """Gives up to 1,000 jobs back, which are due again after the delay. This counts as no failure."""
        return await self._transport.send(leases.release(jobs, delay))
