"""Reports the ends of jobs, many in one request."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from .._http.async_transport import AsyncTransport
from .events import Hooks, log
from .outcome import RunEnd
from .report_calls import ReportCalls

JOBS_MAX = 256
"""The most ends in a request."""
WAITING_MAX = 1024
"""While so many ends wait to be reported, no further jobs are reserved."""
_BYTES_MAX = 1 << 20
# Ends wait so long, in seconds, for others and for a reserve that takes them along.
_DELAY = 0.005
_CALLS_MAX = 8
# How often the end of the last reports is looked for, in seconds.
_POLL = 0.01


@dataclass
class Ended:
    """The end of a run."""

    end: RunEnd
    expires: float
    """After that, the report is useless."""
    since: float = field(default_factory=time.monotonic)
    is_alone: bool = False
    """Whether it travels with no reserve: the server has refused one with it."""
    is_maybe_reported: bool = False
    """Whether a request with it got no answer. The outcome `lost` says nothing then."""


@dataclass
class Batch:
    """Ends that are reported in one request of each kind."""

    acks: list[Ended] = field(default_factory=list)
    fails: list[Ended] = field(default_factory=list)
    releases: list[Ended] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.acks) + len(self.fails) + len(self.releases)

    def add(self, ended: Ended) -> None:
        """Adds an end."""
        kinds = {"ack": self.acks, "fail": self.fails, "release": self.releases}
        kinds[ended.end.kind].append(ended)

    def all(self) -> list[Ended]:
        """All ends."""
        return [*self.acks, *self.fails, *self.releases]


class Reports:
    """The ends of jobs that are not reported yet."""

    def __init__(self, transport: AsyncTransport, hooks: Hooks) -> None:
        self._calls = ReportCalls(transport, hooks)
        self._waiting: deque[Ended] = deque()
        self._in_flight = 0
        self._is_finishing = False
        self._arrived = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_room: Callable[[], None] = lambda: None
        """Is called when fewer ends wait."""

    @property
    def is_full(self) -> bool:
        """Whether so many ends wait that no further jobs should be reserved."""
        return len(self._waiting) + self._in_flight >= WAITING_MAX

    def add(self, end: RunEnd, expires: float) -> None:
        """Adds the end of a run."""
        self._waiting.append(Ended(end, expires))
        self._arrived.set()

    def take_along(self) -> Batch | None:
        """The acks and failures that a reserve takes along."""
        batch, rest, size = Batch(), deque[Ended](), 0
        while self._waiting:
            ended = self._waiting.popleft()
            size += len(ended.end.item)
            is_full = len(batch) >= JOBS_MAX or size > _BYTES_MAX
            if ended.end.kind == "release" or ended.is_alone or is_full:
                rest.append(ended)
            else:
                batch.add(ended)
        self._waiting = rest
        self._in_flight += len(batch)
        return batch if len(batch) else None

    def taken(self, batch: Batch | None, lost: int = 0) -> None:
        """A reserve has reported these ends. So many leases had expired."""
        if batch is not None:
            self._in_flight -= len(batch)
            self._calls.report_lost("reserve", lost)

    def take_back(self, batch: Batch | None, *, is_refused: bool) -> None:
        """A reserve has failed, so that nobody knows whether these ends are reported. They are reported again."""
        if batch is None:
            return
        self._in_flight -= len(batch)
        now = time.monotonic()
        for ended in batch.all():
            ended.is_alone = ended.is_alone or is_refused
            ended.is_maybe_reported = True
            if ended.expires > now:
                self._waiting.append(ended)
            else:
                log.debug("a lease has expired before its end was surely reported")
        self._arrived.set()

    async def run(self) -> None:
        """Reports ends until it is cancelled. Requests that are in flight then are cut."""
        try:
            while True:
                await self._arrived.wait()
                self._arrived.clear()
                while self._waiting:
                    age = time.monotonic() - self._waiting[0].since
                    if age < _DELAY and not self._is_finishing:
                        await asyncio.sleep(_DELAY - age)
                    else:
                        await self._report_next()
        finally:
            for task in self._tasks:
                task.cancel()

    async def finish(self, seconds: float) -> None:
        """Waits until `run` has reported the ends that are left, for up to so many seconds."""
        self._is_finishing = True
        self._arrived.set()
        deadline = time.monotonic() + seconds
        while (self._waiting or self._in_flight) and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_POLL)
        left = len(self._waiting) + self._in_flight
        if left:
            log.warning(
                "failed to report the last jobs in time: jobs=%d; they run again when their leases expire",
                left,
            )

    async def _report_next(self) -> None:
        if len(self._tasks) >= _CALLS_MAX:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        batch, size = Batch(), 0
        while self._waiting and len(batch) < JOBS_MAX:
            size += len(self._waiting[0].end.item)
            if len(batch) and size > _BYTES_MAX:
                break
            batch.add(self._waiting.popleft())
        if not len(batch):
            return
        self._in_flight += len(batch)
        task = asyncio.get_running_loop().create_task(self._send(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, batch: Batch) -> None:
        try:
            await self._calls.send(batch.acks, batch.fails, batch.releases)
        except Exception:
            log.exception("failed to report jobs: jobs=%d; they run again when their leases expire", len(batch))
        finally:
            self._in_flight -= len(batch)
            self.on_room()
