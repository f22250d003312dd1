"""A clock that stands still until it is moved."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from .._values import instant_ms

_START = datetime(2030, 1, 1, tzinfo=timezone.utc)


class FakeClock:
    """The clock of a fake. It stands still until it is moved.

    Args:
        start: Its time, with a time zone. Default: the begin of 2030, in UTC.
    """

    def __init__(self, start: datetime = _START) -> None:
        self._ms = instant_ms("start", start)

    @property
    def now(self) -> datetime:
        """Its time, in UTC."""
        return datetime.fromtimestamp(self._ms / 1000, timezone.utc)

    @property
    def ms(self) -> int:
        """Its time in ms since 1970."""
        return self._ms

    def advance(self, by: timedelta) -> None:
        """Moves the clock forward."""
        self._ms += by // timedelta(milliseconds=1)

    def set(self, to: datetime) -> None:
        """Sets the clock."""
        self._ms = instant_ms("to", to)
