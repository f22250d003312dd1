"""Publishes of several tasks that meet are sent together."""

from __future__ import annotations

import asyncio

from .._http.async_transport import AsyncTransport
from ..answers import PublishedJob
from ..errors import Applied, ConnectionError, TidegateError
from .calls import BatchResult, batch_call, single_call
from .gather import BatchRun, Lane, Lanes, is_refused, lane_of
from .new_job import PreparedJob


class _Entry:
    """A publish of a task."""

    __slots__ = ("future", "job")

    def __init__(self, job: PreparedJob) -> None:
        self.job = job
        self.future: asyncio.Future[PublishedJob] = asyncio.get_running_loop().create_future()

    def finish(self, result: BatchResult) -> None:
        """Gives the caller its result, unless the caller was cancelled."""
        if self.future.done():
            return
        if isinstance(result, PublishedJob):
            self.future.set_result(result)
        else:
            self.future.set_exception(result)


class AsyncPublisher:
    """Sends publishes. Batches have a task of their own, so that a caller that is cancelled stops no other."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport
        self._lanes: Lanes[_Entry] = Lanes()
        self._tasks: set[asyncio.Task[None]] = set()

    async def publish(self, queue: str, job: PreparedJob) -> PublishedJob:
        """Publishes a job, at once or together with others."""
        lane, entry = lane_of(queue, job), _Entry(job)
        if not self._lanes.enter(lane, entry):
            try:
                return await entry.future
            finally:
                self._lanes.leave(lane, entry)
        try:
            return await self._transport.send(single_call(queue, job))
        finally:
            self._pass_on(queue, lane)

    def _pass_on(self, queue: str, lane: Lane) -> None:
        """Sends the publishes that have gathered."""
        batch = self._lanes.next_batch(lane)
        if batch:
            task = asyncio.get_running_loop().create_task(self._send_batches(queue, lane, batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send_batches(self, queue: str, lane: Lane, batch: list[_Entry]) -> None:
        while batch:
            try:
                results = await self._results(queue, [entry.job for entry in batch])
            except asyncio.CancelledError:
                # The event loop ends.
                self._interrupt(lane, batch)
                raise
            except Exception as error:
                # The client is closed. The lane goes on, so that nobody waits without an end.
                text = f"the request was interrupted: {error!r}"
                results = [ConnectionError(text, applied="unknown") for _ in batch]
            for entry, result in zip(batch, results, strict=True):
                entry.finish(result)
            batch = self._lanes.next_batch(lane)

    def _interrupt(self, lane: Lane, batch: list[_Entry]) -> None:
        """Gives an error to all callers that wait."""
        applied: Applied = "unknown"
        while batch:
            for entry in batch:
                entry.finish(ConnectionError("the request was interrupted", applied=applied))
            batch, applied = self._lanes.next_batch(lane), "no"

    async def _results(self, queue: str, jobs: list[PreparedJob]) -> list[BatchResult]:
        if len(jobs) == 1:
            try:
                return [await self._transport.send(single_call(queue, jobs[0]))]
            except TidegateError as error:
                return [error]
        run = BatchRun(jobs, self._transport.settings.limits)
        while True:
            try:
                delay = run.take(await self._transport.send(batch_call(queue, run.jobs)))
            except TidegateError as error:
                if not is_refused(error):
                    return run.failed(error)
                return run.ended([(await self._results(queue, [job]))[0] for job in run.jobs])
            if delay is None:
                return run.ended()
            await self._transport.sleep(delay)
