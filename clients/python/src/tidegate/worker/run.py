"""A run of a worker, from its start to its stop."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from .._http.async_transport import AsyncTransport
from .events import Hooks, JobAbortRequested, log
from .handlers import JobRunner
from .heartbeats import extend_leases
from .job import AbortReason
from .leases import HeldJob, LeaseTable
from .reports import Reports
from .reserve_call import ReserveSettings
from .reserving import ReserveLoop
from .running import Runs

# How long a stop waits until the server has the last reports, in seconds.
_FLUSH_LIMIT = 10.0
# How often a task that does not end is cancelled, in seconds.
_CANCEL_INTERVAL = 0.5


@dataclass(frozen=True)
class RunSettings:
    """How jobs are run."""

    slots: int
    prefetch: int
    max_run: float | None


class WorkerRun:
    """All parts of a worker that runs."""

    def __init__(
        self,
        transport: AsyncTransport,
        runners: dict[str, JobRunner],
        reserve: ReserveSettings,
        settings: RunSettings,
        hooks: Hooks,
    ) -> None:
        self._transport = transport
        self._hooks = hooks
        self._leases = LeaseTable(self._abort_requested)
        self._reports = Reports(transport, hooks)
        self._runs = Runs(runners, self._leases, self._reports, hooks, settings.max_run)
        self._reserving = ReserveLoop(
            transport,
            reserve,
            self._leases,
            self._reports,
            self._runs,
            hooks,
            slots=settings.slots,
            prefetch=settings.prefetch,
        )
        self._runs.on_end = self._reports.on_room = self._reserving.wake
        self._grace = 0.0

    def stop(self, grace: float) -> None:
        """Begins the stop: handlers have so many seconds to finish."""
        self._grace = grace
        self._reserving.stop()

    async def run(self, grace: float) -> None:
        """Runs jobs until `stop` is called, and then ends all parts in their order.

        Raises:
            AuthError: The server rejects the requests of the worker.
        """
        self._grace = grace
        loop = asyncio.get_running_loop()
        heartbeats = loop.create_task(extend_leases(self._transport, self._leases, self._hooks))
        reporting = loop.create_task(self._reports.run())
        try:
            try:
                fatal = await self._reserving.run()
                await self._end(heartbeats, self._grace)
            except asyncio.CancelledError:
                # Whoever cancels the worker does not wait for its handlers. A second time ends all at once.
                self._reserving.stop()
                await self._end(heartbeats, 0.0)
                raise
        finally:
            self._reserving.cut()
            self._runs.abort()
            await _ended(heartbeats)
            await _ended(reporting)
        if fatal is not None:
            raise fatal

    async def _end(self, heartbeats: asyncio.Task[None], grace: float) -> None:
        await asyncio.gather(self._reserving.end(), self._runs.end(grace))
        await _ended(heartbeats)
        await self._reports.finish(_FLUSH_LIMIT)

    def _abort_requested(self, held: HeldJob, reason: AbortReason) -> None:
        log.debug("job %s is aborted: %s", held.job.id, reason)
        if self._hooks:
            self._hooks.emit(JobAbortRequested(held.job, reason))


async def _ended(task: asyncio.Task[None]) -> None:
    # Before Python 3.12, `asyncio.wait_for` loses a cancellation that comes together with its result.
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_CANCEL_INTERVAL)
    if not task.cancelled() and task.exception() is not None:
        log.error("a part of the worker has failed", exc_info=task.exception())
