"""Reserves jobs as slots become free, and starts their handlers."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from .._http.async_transport import AsyncTransport
from .._http.repeat import RETRY_AFTER_MAX, delays
from ..errors import AuthError, TidegateError
from .events import Hooks, ReserveFailed, log
from .leases import HeldJob, LeaseTable
from .outcome import released
from .reports import Batch, Reports
from .reserve_call import Reserved, ReserveSettings
from .running import Runs

_FIRST_DELAY, _LONGEST_DELAY = 0.1, 5.0
_JOBS_MAX = 256
# The most reserve requests in flight.
_CALLS_MAX = 4
# An empty answer that comes earlier than the wait is followed by this pause, in seconds.
_EMPTY_PAUSE = 0.05
# How long a stop waits for the answers to reserve requests. A server that has no job does not answer.
_LAST_ANSWERS = 0.25
_BODY_REFUSED = frozenset((400, 413, 415, 422))


@dataclass(frozen=True)
class _InFlight:
    """A reserve request that is not answered yet."""

    requested: int
    batch: Batch | None
    sent: float


class ReserveLoop:
    """Reserves and runs jobs."""

    def __init__(
        self,
        transport: AsyncTransport,
        settings: ReserveSettings,
        leases: LeaseTable,
        reports: Reports,
        runs: Runs,
        hooks: Hooks,
        *,
        slots: int,
        prefetch: int,
    ) -> None:
        self._transport = transport
        self._settings = settings
        self._leases = leases
        self._reports = reports
        self._runs = runs
        self._hooks = hooks
        self._slots = slots
        self._prefetch = prefetch
        self._waiting: deque[HeldJob] = deque()
        """Jobs that wait for a slot."""
        self._calls: dict[asyncio.Task[Reserved], _InFlight] = {}
        self._requested = 0
        """The jobs that the calls in flight may return."""
        self._is_busy = False
        """Whether the last answer had as many jobs as requested: there are probably more."""
        self._delays = delays(_FIRST_DELAY, _LONGEST_DELAY)
        self._not_before = 0.0
        self._is_stopping = False
        self._fatal: TidegateError | None = None
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Something has changed: a slot is free."""
        self._changed.set()

    def stop(self) -> None:
        """Reserves no further jobs."""
        self._is_stopping = True
        self.wake()

    async def run(self) -> TidegateError | None:
        """Runs jobs until `stop` is called, or the server rejects the requests of the worker: returns why."""
        while not self._is_stopping and self._fatal is None:
            self._start_waiting()
            self._request_more()
            await self._changed.wait()
            self._changed.clear()
        return self._fatal

    def _request_more(self) -> None:
        """Sends a reserve if there is room for jobs. While the queues have more than that, several are in flight."""
        if time.monotonic() < self._not_before or self._reports.is_full:
            return
        room = self._slots + self._prefetch
        free = room - len(self._runs) - len(self._waiting) - self._requested
        may_add = self._is_busy and free * 4 >= room and len(self._calls) < _CALLS_MAX
        if free <= 0 or (self._calls and not may_add):
            return
        requested = min(free, _JOBS_MAX)
        batch = self._reports.take_along()
        call = self._settings.call(requested, batch)
        task = asyncio.get_running_loop().create_task(self._transport.send_once(call))
        self._calls[task] = _InFlight(requested, batch, time.monotonic())
        self._requested += requested
        task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[Reserved]) -> None:
        in_flight = self._calls.pop(task)
        self._requested -= in_flight.requested
        self.wake()
        if task.cancelled():
            self._reports.take_back(in_flight.batch, is_refused=False)
            return
        error = task.exception()
        if error is None:
            self._take(task.result(), in_flight)
            return
        if not isinstance(error, TidegateError):
            log.error("failed to read an answer to a reserve", exc_info=error)
            error = TidegateError(f"failed to read an answer: {error!r}", applied="unknown")
        is_refused = error.status in _BODY_REFUSED
        self._reports.take_back(in_flight.batch, is_refused=is_refused)
        if isinstance(error, AuthError):
            self._fatal = error
        else:
            self._pause_after(error)

    def _take(self, reserved: Reserved, in_flight: _InFlight) -> None:
        self._reports.taken(in_flight.batch, reserved.lost)
        self._is_busy = len(reserved.held) >= in_flight.requested
        self._delays = delays(_FIRST_DELAY, _LONGEST_DELAY)
        took = time.monotonic() - in_flight.sent
        is_early = in_flight.batch is None and took < max(self._settings.wait / 2, _EMPTY_PAUSE)
        if not reserved.held and is_early:
            self._pause(_EMPTY_PAUSE)
        if self._is_stopping or self._fatal is not None:
            self._give_back(reserved.held)
            return
        for held in reserved.held:
            self._leases.add(held)
        self._waiting.extend(reserved.held)

    def _pause_after(self, error: TidegateError) -> None:
        delay = next(self._delays)
        if error.retry_after is not None:
            delay = max(delay, min(error.retry_after, RETRY_AFTER_MAX).total_seconds())
        log.warning("failed to reserve jobs: %s; trying it again in %.1f s", error, delay)
        self._hooks.emit(ReserveFailed(error, delay))
        self._pause(delay)

    def _pause(self, seconds: float) -> None:
        # Several requests may be in flight: the pause that one asks for is not cut short by another.
        self._not_before = max(self._not_before, time.monotonic() + seconds)
        # A little later, so that the pause is over by then.
        asyncio.get_running_loop().call_later(seconds + 0.001, self.wake)

    def _start_waiting(self) -> None:
        """Starts the handlers of jobs that wait, as long as slots are free."""
        while self._waiting and len(self._runs) < self._slots:
            held = self._waiting.popleft()
            if held.expires > time.monotonic() and not held.job.is_aborted:
                self._runs.start(held)
            else:
                # Another worker has the job.
                self._leases.lost(held)

    async def end(self) -> None:
        """Gives back the jobs that have no slot yet, and cuts the requests for further jobs."""
        waiting, self._waiting = self._waiting, deque()
        self._give_back(held for held in waiting if self._leases.remove(held))
        if self._calls:
            await asyncio.wait(list(self._calls), timeout=_LAST_ANSWERS)
        calls = self.cut()
        if calls:
            await asyncio.wait(calls, timeout=_LAST_ANSWERS)

    def cut(self) -> list[asyncio.Task[Reserved]]:
        """Cuts the requests for further jobs; the server gives these jobs back. Returns the requests."""
        self._is_stopping = True
        calls = list(self._calls)
        for call in calls:
            call.cancel()
        return calls

    def _give_back(self, jobs: Iterable[HeldJob]) -> None:
        for held in jobs:
            self._reports.add(released(held.job.lease), held.expires)
