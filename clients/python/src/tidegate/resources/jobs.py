"""The jobs of queues, as their producers see them.

A job is named by its id or by `key=…`. The methods of `Jobs` and `AsyncJobs` are the same.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from .._calls import jobs as calls
from .._calls.pages import moved
from .._http.async_transport import AsyncTransport
from .._http.sync_transport import SyncTransport
from .._publish.calls import REQUEST_WAIT
from .._values import seconds
from ..answers import ActResult, ChangedJob, JobDetails, JobExplanation
from ..content import Content, Pending
from ..options import Action, IfRunning, JobChange, JobFilter

if TYPE_CHECKING:
    from typing_extensions import Unpack

_NO_WAIT = timedelta(0)


class Jobs:
    """The jobs of queues."""

    def __init__(self, transport: SyncTransport) -> None:
        self._transport = transport

    def show(self, queue: str, id: str | None = None, *, key: str | None = None) -> JobDetails:
        """All about a job, except its payload. A job by its id needs the scope `read`.

        Raises:
            NotFoundError: There is no such job: it is done, was cancelled, or never existed.
        """
        return self._transport.send(calls.show(queue, id, key))

    def explain(self, queue: str, id: str | None = None, *, key: str | None = None) -> JobExplanation:
        """Why a job is not delivered now, or not any more. Needs the scope `read`.

        Raises:
            NotFoundError: There is no such job: it is done, was cancelled, or never existed.
        """
        return self._transport.send(calls.explain(queue, id, key))

    def payload(self, queue: str, id: str | None = None, *, key: str | None = None) -> Content:
        """The payload of a job. Needs the scope `read`.

        Raises:
            NotFoundError: There is no such job: it is done, was cancelled, or never existed.
        """
        return self._transport.send(calls.payload(queue, id, key))

    def result(
        self, queue: str, id: str | None = None, *, key: str | None = None, wait: timedelta = _NO_WAIT
    ) -> Content | Pending:
        """The result of a job, for which this waits up to `wait`. Needs the scope `read`.

        A result is kept as long as the job is retained. A wait of more than 20 s takes several requests.

        Returns:
            `Content`, or `Pending` if the job is not done in time.

        Raises:
            ConflictError: The job is dead (`job_dead`).
            NotFoundError: The job was cancelled, or is not kept any longer.
        """
        deadline = time.monotonic() + seconds("wait", wait)
        while True:
            left = max(0.0, deadline - time.monotonic())
            limit = left + self._transport.settings.time_limit
            found = self._transport.send(calls.result(queue, id, key, min(left, REQUEST_WAIT), limit))
            if isinstance(found, Content) or time.monotonic() >= deadline:
                return found

    def change(
        self, queue: str, id: str | None = None, *, key: str | None = None, **change: Unpack[JobChange]
    ) -> ChangedJob:
        """Changes a job that waits: `run_at` or `delay`, `start_within`, `priority`.

        Raises:
            NotFoundError: There is no such job.
            ConflictError: A worker holds the job (`job_running`), or it is dead (`job_dead`).
        """
        return self._transport.send(calls.change(queue, id, key, change))

    def promote(self, queue: str, id: str | None = None, *, key: str | None = None) -> ChangedJob:
        """Makes a delayed job ready now.

        Raises:
            NotFoundError: There is no such job.
            ConflictError: A worker holds the job (`job_running`), or it is dead (`job_dead`).
        """
        return self._transport.send(calls.promote(queue, id, key))

    def cancel(
        self, queue: str, id: str | None = None, *, key: str | None = None, running: IfRunning | None = None
    ) -> ChangedJob:
        """Deletes a job.

        Args:
            queue: The queue of the job.
            id: The id of the job.
            key: The key of the job.
            running: The effect on a job that a worker holds: `refuse` (default) is an error; `ask` tells the worker at
                its next heartbeat, and the job is deleted unless the worker succeeds; `revoke` deletes it at once.

        Raises:
            NotFoundError: There is no such job: it is done, was cancelled, or never existed.
            ConflictError: A worker holds the job (`job_running`), or it is dead (`job_dead`).
        """
        return self._transport.send(calls.cancel(queue, id, key, running))

    def list(self, queue: str, *, page_size: int | None = None, **filter: Unpack[JobFilter]) -> Iterator[JobDetails]:
        """The jobs of a queue that match all fields of the filter. Needs the scope `read`.

        There is no index: the server looks at the jobs of the queue. Pages of up to 1,000 jobs (default 100) are read
        as the list is read. A job that changes meanwhile may be missing, or be in the list twice.
        """
        return calls.list_jobs(queue, page_size, filter).each(self._transport)

    def act(
        self,
        queue: str,
        action: Action,
        *,
        filter: JobFilter | None = None,
        dry_run: bool = False,
        running: IfRunning | None = None,
        change: JobChange | None = None,
        rate_per_second: int | None = None,
        page_size: int | None = None,
    ) -> ActResult:
        """Does something with all jobs that match a filter, page by page. Needs the scope `admin`.

        Args:
            queue: The queue of the jobs.
            action: `cancel`, `promote`, `change`, `respawn`, or `purge`, which needs a `state` in the filter.
            filter: Which jobs. Default: all that the action can change.
            dry_run: Only counts the jobs.
            running: For `cancel`: as for a single job.
            change: For `change`: the fields to change.
            rate_per_second: For `respawn`: the jobs become due at even spaces.
            page_size: How many jobs one request changes, up to 1,000. Default: 100.

        Returns:
            The numbers of jobs of all pages together. A page that was repeated after an error counts once.

        Raises:
            TidegateError: Some jobs may be changed. The same call finds the others.
        """
        body = calls.act_body(
            action,
            filter,
            dry_run=dry_run,
            running=running,
            change=change,
            rate_per_second=rate_per_second,
            page_size=page_size,
        )
        matched = changed = 0
        cursor: str | None = None
        while True:
            page = self._transport.send(calls.act(queue, body, cursor))
            matched, changed = matched + page["matched"], changed + page["changed"]
            if page["next"] is None:
                return ActResult(matched, changed)
            cursor = moved(cursor, page["next"])
            self._transport.sleep(page["wait_ms"] / 1000)


class AsyncJobs:
    """The jobs of queues."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def show(self, queue: str, id: str | None = None, *, key: str | None = None) -> JobDetails:
        """All about a job, except its payload. A job by its id needs the scope `read`.

        Raises:
            NotFoundError: There is no such job: it is done, was cancelled, or never existed.
        """
        return await self._transport.send(calls.show(queue, id, key))

    async def explain(self, queue: str, id: str | None = None, *, key: str | None = None) -> JobExplanation:
        """Why a job is not delivered now, or not any more. Needs the scope `read`.

        Raises:
            NotFoundError: There is no such job: it is done, was cancelled, or never existed.
        """
        return await self._transport.send(calls.explain(queue, id, key))

    async def payload(self, queue: str, id: str | None = None, *, key: str | None = None) -> Content:
        """The payload of a job. Needs the scope `read`.

        Raises:
            NotFoundError: There is no such job: it is done, was cancelled, or never existed.
        """
        return await self._transport.send(calls.payload(queue, id, key))

    async def result(
        self, queue: str, id: str | None = None, *, key: str | None = None, wait: timedelta = _NO_WAIT
    ) -> Content | Pending:
        """The result of a job, for which this waits up to `wait`. Needs the scope `read`.

        A result is kept as long as the job is retained. A wait of more than 20 s takes several requests.

        Returns:
            `Content`, or `Pending` if the job is not done in time.

        Raises:
            ConflictError: The job is dead (`job_dead`).
            NotFoundError: The job was cancelled, or is not kept any longer.
        """
        deadline = time.monotonic() + seconds("wait", wait)
        while True:
            left = max(0.0, deadline - time.monotonic())
            limit = left + self._transport.settings.time_limit
            found = await self._transport.send(calls.result(queue, id, key, min(left, REQUEST_WAIT), limit))
            if isinstance(found, Content) or time.monotonic() >= deadline:
                return found

    async def change(
        self, queue: str, id: str | None = None, *, key: str | None = None, **change: Unpack[JobChange]
    ) -> ChangedJob:
        """Changes a job that waits: `run_at` or `delay`, `start_within`, `priority`.

        Raises:
            NotFoundError: There is no such job.
            ConflictError: A worker holds the job (`job_running`), or it is dead (`job_dead`).
        """
        return await self._transport.send(calls.change(queue, id, key, change))

    async def promote(self, queue: str, id: str | None = None, *, key: str | None = None) -> ChangedJob:
        """Makes a delayed job ready now.

        Raises:
            NotFoundError: There is no such job.
            ConflictError: A worker holds the job (`job_running`), or it is dead (`job_dead`).
        """
        return await self._transport.send(calls.promote(queue, id, key))

    async def cancel(
        self, queue: str, id: str | None = None, *, key: str | None = None, running: IfRunning | None = None
    ) -> ChangedJob:
        """Deletes a job.

        Args:
            queue: The queue of the job.
            id: The id of the job.
            key: The key of the job.
            running: The effect on a job that a worker holds: `refuse` (default) is an error; `ask` tells the worker at
                its next heartbeat, and the job is deleted unless the worker succeeds; `revoke` deletes it at once.

        Raises:
            NotFoundError: There is no such job: it is done, was cancelled, or never existed.
            ConflictError: A worker holds the job (`job_running`), or it is dead (`job_dead`).
        """
        return await self._transport.send(calls.cancel(queue, id, key, running))

    def list(
        self, queue: str, *, page_size: int | None = None, **filter: Unpack[JobFilter]
    ) -> AsyncIterator[JobDetails]:
        """The jobs of a queue that match all fields of the filter. Needs the scope `read`.

        There is no index: the server looks at the jobs of the queue. Pages of up to 1,000 jobs (default 100) are read
        as the list is read. A job that changes meanwhile may be missing, or be in the list twice.
        """
        return calls.list_jobs(queue, page_size, filter).each_async(self._transport)

    async def act(
        self,
        queue: str,
        action: Action,
        *,
        filter: JobFilter | None = None,
        dry_run: bool = False,
        running: IfRunning | None = None,
        change: JobChange | None = None,
        rate_per_second: int | None = None,
        page_size: int | None = None,
    ) -> ActResult:
        """Does something with all jobs that match a filter, page by page. Needs the scope `admin`.

        Args:
            queue: The queue of the jobs.
            action: `cancel`, `promote`, `change`, `respawn`, or `purge`, which needs a `state` in the filter.
            filter: Which jobs. Default: all that the action can change.
            dry_run: Only counts the jobs.
            running: For `cancel`: as for a single job.
            change: For `change`: the fields to change.
            rate_per_second: For `respawn`: the jobs become due at even spaces.
            page_size: How many jobs one request changes, up to 1,000. Default: 100.

        Returns:
            The numbers of jobs of all pages together. A page that was repeated after an error counts once.

        Raises:
            TidegateError: Some jobs may be changed. The same call finds the others.
        """
        body = calls.act_body(
            action,
            filter,
            dry_run=dry_run,
            running=running,
            change=change,
            rate_per_second=rate_per_second,
            page_size=page_size,
        )
        matched = changed = 0
        cursor: str | None = None
        while True:
            page = await self._transport.send(calls.act(queue, body, cursor))
            matched, changed = matched + page["matched"], changed + page["changed"]
            if page["next"] is None:
                return ActResult(matched, changed)
            cursor = moved(cursor, page["next"])
            await self._transport.sleep(page["wait_ms"] / 1000)
