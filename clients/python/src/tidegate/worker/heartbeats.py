"""Extends the leases of running jobs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import groupby

from .._calls import leases as calls
from .._http.async_transport import AsyncTransport
from ..answers import Outcome
from ..errors import TidegateError
from .events import HeartbeatFailed, Hooks, log
from .leases import HeldJob, LeaseTable

_LEASES_MAX = 1000
# The lengths that the server accepts, in seconds.
_LEASE_MIN, _LEASE_MAX = 0.1, 86_400.0
# Leases whose lengths differ by less are extended together, in seconds.
_BUCKET = 0.01
# The shortest time that a touch may take, in seconds.
_ANSWER_LIMIT_MIN = 0.1


async def extend_leases(transport: AsyncTransport, leases: LeaseTable, hooks: Hooks) -> None:
    """Extends each lease when a third of it has passed, until it is cancelled.

    A lease that is not extended, since the server cannot be reached, is tried again until it has expired.
    """
    while True:
        await leases.tick()
        due = leases.due()
        if due:
            await asyncio.gather(*(_extend(transport, leases, hooks, part) for part in _of_one_length(due)))


def _of_one_length(due: list[HeldJob]) -> Iterator[list[HeldJob]]:
    """A request extends all its leases to one length. There are few lengths, which differ by some ms."""
    due.sort(key=_bucket)
    for _, same in groupby(due, key=_bucket):
        part = list(same)
        for start in range(0, len(part), _LEASES_MAX):
            yield part[start : start + _LEASES_MAX]


def _bucket(held: HeldJob) -> int:
    return round(held.length / _BUCKET)


async def _extend(transport: AsyncTransport, leases: LeaseTable, hooks: Hooks, due: list[HeldJob]) -> None:
    # The length that was granted: the policy of the queue may have another one by now.
    length = max(held.length for held in due)
    # An answer that is late must leave time for another request, also for the shortest lease.
    limit = min(max(leases.shortest / 3, _ANSWER_LIMIT_MIN), transport.settings.time_limit)
    sent = time.monotonic()
    touch = calls.touch([held.job for held in due], timedelta(seconds=min(max(length, _LEASE_MIN), _LEASE_MAX)))
    try:
        outcomes = await transport.send_once(touch, limit)
    except Exception as problem:
        # Also an error that is not of a request must not end this loop: all leases would be lost.
        error = problem if isinstance(problem, TidegateError) else TidegateError(repr(problem))
        log.warning("failed to extend leases: jobs=%d error=%s", len(due), error)
        hooks.emit(HeartbeatFailed(error, len(due)))
        return
    for held, outcome in zip(due, outcomes, strict=False):
        _apply(leases, held, outcome, sent)


def _apply(leases: LeaseTable, held: HeldJob, outcome: Outcome, sent: float) -> None:
    if outcome.outcome != "extended":
        # A job that has ended meanwhile is not in the table any more.
        leases.lost(held)
        return
    held.extended = sent
    held.expires = sent + held.length
    if outcome.cancel_requested:
        leases.abort(held, "cancel_requested")
