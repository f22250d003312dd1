"""Schedules publish a job at each tick. The methods of `Schedules` and `AsyncSchedules` are the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime

from .._calls import schedules as calls
from .._http.async_transport import AsyncTransport
from .._http.sync_transport import SyncTransport
from ..answers import Schedule
from ..options import ScheduleSpec


class Schedules:
    """The schedules of the namespace."""

    def __init__(self, transport: SyncTransport) -> None:
        self._transport = transport

    def set(
        self, name: str, spec: ScheduleSpec, *, if_match: str | None = None, if_none_match: str | None = None
    ) -> Schedule:
        """Creates a schedule, or replaces it. Needs the scopes `admin` and `publish`.

        `if_match` replaces only the version with this `etag`; `if_none_match="*"` creates only.

        Raises:
            ConflictError: The version is another one (`version_mismatch`).
        """
        return self._transport.send(calls.set_schedule(name, spec, if_match, if_none_match))

    def show(self, name: str) -> Schedule:
        """A schedule.

        Raises:
            NotFoundError: There is no such schedule.
        """
        return self._transport.send(calls.show(name))

    def list(self, *, page_size: int | None = None) -> Iterator[Schedule]:
        """All schedules of the namespace, by name. Pages (100 by default) are read as the list is read."""
        return calls.list_schedules(page_size).each(self._transport)

    def next_runs(self, name: str, *, count: int | None = None) -> Sequence[datetime]:
        """The next ticks of a schedule, up to 100. None if it is paused or has ended.

        Raises:
            NotFoundError: There is no such schedule.
        """
        return self._transport.send(calls.next_runs(name, count))

    def delete(self, name: str) -> None:
        """Ends a schedule. Jobs that it has published stay.

        Raises:
            NotFoundError: There is no such schedule.
        """
        self._transport.send(calls.delete(name))


class AsyncSchedules:
    """The schedules of the namespace."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def set(
        self, name: str, spec: ScheduleSpec, *, if_match: str | None = None, if_none_match: str | None = None
    ) -> Schedule:
        """Creates a schedule, or replaces it. Needs the scopes `admin` and `publish`.

        `if_match` replaces only the version with this `etag`; `if_none_match="*"` creates only.

        Raises:
            ConflictError: The version is another one (`version_mismatch`).
        """
        return await self._transport.send(calls.set_schedule(name, spec, if_match, if_none_match))

    async def show(self, name: str) -> Schedule:
        """A schedule.

        Raises:
            NotFoundError: There is no such schedule.
        """
        return await self._transport.send(calls.show(name))

    def list(self, *, page_size: int | None = None) -> AsyncIterator[Schedule]:
        """All schedules of the namespace, by name. Pages (100 by default) are read as the list is read."""
        return calls.list_schedules(page_size).each_async(self._transport)

    async def next_runs(self, name: str, *, count: int | None = None) -> Sequence[datetime]:
        """The next ticks of a schedule, up to 100. None if it is paused or has ended.

        Raises:
            NotFoundError: There is no such schedule.
        """
        return await self._transport.send(calls.next_runs(name, count))

    async def delete(self, name: str) -> None:
        """Ends a schedule. Jobs that it has published stay.

        Raises:
            NotFoundError: There is no such schedule.
        """
        await self._transport.send(calls.delete(name))
