"""How often and when requests are repeated."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from ..errors import ConnectionError, TidegateError

RETRY_AFTER_MAX = timedelta(seconds=30)
"""The longest `Retry-After` that is waited for."""

_REPEATED_STATUSES = frozenset((408, 502, 503, 504))


@dataclass(frozen=True)
class RepeatLimits:
    """How often a request that failed is repeated, and the delays between.

    The first delay is doubled up to the longest one, and each is made longer at random, up to twice. If the server says
    `Retry-After`, the request is not repeated earlier; if that is more than 30 s, the error is raised.
    """

    repetitions: int = 7
    """The most repetitions. 0 for none."""
    first_delay: timedelta = timedelta(milliseconds=100)
    """The delay before the first repetition."""
    longest_delay: timedelta = timedelta(seconds=5)
    """The longest delay, before it is made longer at random."""


def is_repeated(error: TidegateError, *, safe: bool) -> bool:
    """Whether the client repeats a request after this error."""
    if not isinstance(error, ConnectionError) and error.status not in _REPEATED_STATUSES:
        return False
    return error.applied == "no" or (error.applied == "unknown" and safe)


def delays(first: float, longest: float) -> Iterator[float]:
    """Growing delays in seconds, each made longer at random, without an end."""
    delay = first
    while True:
        yield delay * random.uniform(1.0, 2.0)
        delay = min(delay * 2, longest)


class Repetitions:
    """The repetitions of one request."""

    def __init__(self, limits: RepeatLimits, method: str, *, safe: bool, give_up_after: float | None = None) -> None:
        self._left = limits.repetitions
        first, longest = limits.first_delay.total_seconds(), limits.longest_delay.total_seconds()
        self._delays = delays(first, longest)
        self._method = method
        self._safe = safe
        self._first_lost: TidegateError | None = None
        self._deadline = None if give_up_after is None else time.monotonic() + give_up_after

    def delay_after(self, error: TidegateError) -> float:
        """The seconds until the next repetition.

        Raises:
            TidegateError: The request is not repeated any more.
        """
        delay = self._next_delay(error)
        if delay is None:
            raise self._final(error)
        if error.applied == "unknown" and self._first_lost is None:
            self._first_lost = error
        return delay

    def _next_delay(self, error: TidegateError) -> float | None:
        if self._left <= 0 or not is_repeated(error, safe=self._safe):
            return None
        self._left -= 1
        delay = next(self._delays)
        if error.retry_after is not None:
            if error.retry_after > RETRY_AFTER_MAX:
                return None
            delay = max(delay, error.retry_after.total_seconds())
        if self._deadline is not None and time.monotonic() + delay >= self._deadline:
            return None
        return delay

    def _final(self, last: TidegateError) -> TidegateError:
        """The last error; but the first one that may have changed something, if the last one denies that.

        A 404 does not deny it: something is not there however that came about.
        """
        lost = self._first_lost
        denies = last.applied == "no" and last.status != 404 and self._method != "GET"
        return lost if lost is not None and denies else last
