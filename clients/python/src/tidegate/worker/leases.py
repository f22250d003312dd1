"""The leases that a worker holds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

from .job import AbortReason, Job

# How often the table is looked into: the fastest and the slowest, in seconds.
_TICK_MIN = 0.010
_TICK_MAX = 1.0
# A lease is extended after a third of it. Looking twice as often bounds how late that is.
_TICKS_PER_LEASE = 6


class HeldJob:
    """A job whose lease this worker holds: its handler runs, or it waits for a slot."""

    __slots__ = (
        "expires",
        "extend_until",
        "extended",
        "is_reported",
        "job",
        "length",
        "started",
        "task",
        "timer",
    )

    def __init__(self, job: Job, length: float) -> None:
        self.job = job
        self.length = length
        """The length of the lease, in seconds."""
        self.extended = time.monotonic()
        self.expires = self.extended + length
        self.extend_until: float | None = None
        self.started = 0.0
        self.is_reported = False
        self.task: asyncio.Task[Any] | None = None
        self.timer: asyncio.TimerHandle | None = None

    def abort(self, reason: AbortReason) -> bool:
        """Tells the handler to stop. Returns whether it was not told so before."""
        is_first = self.job._abort(reason)
        if is_first and self.task is not None:
            self.task.cancel()
        return is_first

    def is_due(self, now: float) -> bool:
        """Whether the lease is to be extended."""
        runs_too_long = self.extend_until is not None and now >= self.extend_until
        return now - self.extended >= self.length / 3 and not runs_too_long


class LeaseTable:
    """The jobs that a worker holds. Who removes a job from the table reports its end, so it is reported once."""

    def __init__(self, on_abort: Callable[[HeldJob, AbortReason], None]) -> None:
        self._held: dict[str, HeldJob] = {}
        self._on_abort = on_abort
        self.shortest = float("inf")
        """The length of the shortest lease, in seconds."""
        self._shortened = asyncio.Event()

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[HeldJob]:
        return iter(list(self._held.values()))

    def add(self, held: HeldJob) -> None:
        """Adds a job."""
        self._held[held.job.lease] = held
        if held.length < self.shortest:
            self.shortest = held.length
            self._shortened.set()

    def remove(self, held: HeldJob) -> bool:
        """Removes a job. Returns whether it was there."""
        if self._held.get(held.job.lease) is not held:
            return False
        del self._held[held.job.lease]
        return True

    def abort(self, held: HeldJob, reason: AbortReason) -> None:
        """Tells the handler of a job to stop."""
        if held.abort(reason):
            self._on_abort(held, reason)

    def lost(self, held: HeldJob) -> None:
        """The lease is lost: the result of the handler has no effect."""
        if self.remove(held):
            self.abort(held, "lease_lost")

    async def tick(self) -> None:
        """Waits until it is time to look for leases to extend."""
        tick = min(max(self.shortest / _TICKS_PER_LEASE, _TICK_MIN), _TICK_MAX)
        try:
            await asyncio.wait_for(self._shortened.wait(), tick)
        except (asyncio.TimeoutError, TimeoutError):
            return
        self._shortened.clear()

    def due(self) -> list[HeldJob]:
        """The leases to extend now. Jobs whose leases have expired are lost."""
        now = time.monotonic()
        for held in self:
            if held.expires <= now:
                self.lost(held)
        self.shortest = min((held.length for held in self._held.values()), default=float("inf"))
        return [held for held in self._held.values() if held.is_due(now)]
