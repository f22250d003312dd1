"""Publishes that meet are sent together.

While a publish to a queue is in flight, further ones to the queue gather, and are sent as one batch when it is
answered. A publish that meets no other is sent at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from copy import copy
from typing import Generic, Protocol, TypeVar

from .._http.repeat import RepeatLimits, Repetitions, is_repeated
from ..answers import PublishedJob
from ..errors import InvalidRequestError, TidegateError
from .calls import BatchResult
from .new_job import PreparedJob

JOBS_MAX = 100
BYTES_MAX = 1 << 20

_BODY_REFUSED = frozenset((400, 413, 415, 422))

Lane = tuple[str, bool]
"""Publishes that may be in one batch: they have the same queue, and all or none are safe to repeat."""


class Gathered(Protocol):
    """A publish that waits."""

    job: PreparedJob


G = TypeVar("G", bound=Gathered)


class Lanes(Generic[G]):
    """The publishes that wait. A lane is there while a request of it is in flight."""

    def __init__(self) -> None:
        self._lanes: dict[Lane, deque[G]] = {}

    def enter(self, lane: Lane, entry: G) -> bool:
        """Whether the publish is to be sent at once. Else it waits."""
        waiting = self._lanes.get(lane)
        if waiting is None:
            self._lanes[lane] = deque()
            return True
        waiting.append(entry)
        return False

    def next_batch(self, lane: Lane) -> list[G]:
        """The publishes to send next. If there are none the lane is gone."""
        waiting = self._lanes[lane]
        batch: list[G] = []
        size = 0
        while waiting and len(batch) < JOBS_MAX:
            size += waiting[0].job.size
            if batch and size > BYTES_MAX:
                break
            batch.append(waiting.popleft())
        if not batch:
            del self._lanes[lane]
        return batch

    def leave(self, lane: Lane, entry: G) -> None:
        """Takes back a publish that waits."""
        waiting = self._lanes.get(lane)
        if waiting is not None and entry in waiting:
            waiting.remove(entry)


class BatchRun:
    """A batch, whose jobs are sent again as long as the server cannot store them for the moment."""

    def __init__(self, jobs: Sequence[PreparedJob], limits: RepeatLimits) -> None:
        self.jobs = list(jobs)
        """The jobs to send next."""
        self._places = list(range(len(jobs)))
        self._results: list[BatchResult | None] = [None] * len(jobs)
        # The jobs of a lane are all safe to repeat, or none is.
        self._is_safe = all(job.is_safe for job in jobs)
        self._repetitions = Repetitions(limits, "POST", safe=self._is_safe)

    def take(self, results: Sequence[BatchResult]) -> float | None:
        """Takes the results of these jobs. Returns the seconds until some are to be sent again; `None` if none is."""
        self._keep(results)
        again = [
            (place, job, result)
            for place, job, result in zip(self._places, self.jobs, results, strict=True)
            if isinstance(result, TidegateError) and is_repeated(result, safe=self._is_safe)
        ]
        if not again:
            return None
        try:
            delay = self._repetitions.delay_after(again[0][2])
        except TidegateError:
            return None
        self._places, self.jobs = [place for place, _, _ in again], [job for _, job, _ in again]
        return delay

    def ended(self, results: Sequence[BatchResult] = ()) -> list[BatchResult]:
        """The results of all jobs; these are the last ones of the jobs that were sent last."""
        self._keep(results)
        return [result for result in self._results if result is not None]

    def failed(self, error: TidegateError) -> list[BatchResult]:
        """The results of all jobs, after the last request has failed. Each caller gets an error of its own."""
        return self.ended([copy(error) for _ in self.jobs])

    def _keep(self, results: Sequence[BatchResult]) -> None:
        for place, result in zip(self._places, results, strict=False):
            before = self._results[place]
            is_maybe_stored = isinstance(before, TidegateError) and before.applied == "unknown"
            if isinstance(result, PublishedJob) or result.applied != "no" or not is_maybe_stored:
                self._results[place] = result


def lane_of(queue: str, job: PreparedJob) -> Lane:
    """The lane of a publish."""
    return queue, job.is_safe


def is_refused(error: TidegateError) -> bool:
    """Whether one invalid job, or the size of all, may be the reason why a batch was refused."""
    if isinstance(error, InvalidRequestError) and error.status is None:
        # The client has found the mistake in one of the jobs.
        return True
    # A proxy that takes no body of this size does not say `applied`, and has not passed it on.
    return error.status in _BODY_REFUSED and (error.applied == "no" or error.status == 413)
