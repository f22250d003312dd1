"""The handlers that run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from .events import EndKind, Hooks, JobEnded, JobStarted, log
from .handlers import JobRunner
from .leases import HeldJob, LeaseTable
from .outcome import RunEnd, end_of, failed, released, too_long
from .reports import Reports

ABORT_LIMIT = 1.0
"""How long a handler that was told to stop is waited for, in seconds. One that blocks does not notice it."""


class Runs:
    """The handlers that run, each in a task."""

    def __init__(
        self,
        runners: dict[str, JobRunner],
        leases: LeaseTable,
        reports: Reports,
        hooks: Hooks,
        max_run: float | None,
    ) -> None:
        self._runners = runners
        self._leases = leases
        self._reports = reports
        self._hooks = hooks
        self._max_run = max_run
        self._running: set[HeldJob] = set()
        self.on_end: Callable[[], None] = lambda: None
        """Is called when a slot becomes free."""

    def __len__(self) -> int:
        return len(self._running)

    def start(self, held: HeldJob) -> None:
        """Starts the handler of a job."""
        loop = asyncio.get_running_loop()
        held.started = time.monotonic()
        if self._max_run is not None:
            held.extend_until = held.started + self._max_run + ABORT_LIMIT
            held.timer = loop.call_later(self._max_run, self._run_too_long, held)
        self._running.add(held)
        if self._hooks:
            self._hooks.emit(JobStarted(held.job))
        held.task = task = loop.create_task(self._run(held))
        task.add_done_callback(lambda task: self._ended(held, task))

    async def _run(self, held: HeldJob) -> Any:
        try:
            return await self._runners[held.job.queue](held.job)
        except SystemExit as error:
            # It would end the event loop, and with it all other handlers.
            raise RuntimeError(f"the handler has raised {error!r}") from error

    def _ended(self, held: HeldJob, task: asyncio.Task[Any]) -> None:
        self._running.discard(held)
        if held.timer is not None:
            held.timer.cancel()
        try:
            end = end_of(task, held.job, self._max_run)
        except Exception as error:
            # A lease that nobody ends would be extended for ever.
            log.exception("failed to write the end of the job %s", held.job.id)
            end = failed(held.job.lease, f"the end of the handler cannot be reported: {type(error).__name__}")
        self._report(held, end)
        self.on_end()

    def _report(self, held: HeldJob, end: RunEnd) -> None:
        if held.is_reported:
            return
        held.is_reported = True
        is_held = self._leases.remove(held)
        if is_held:
            self._reports.add(end, held.expires)
        if end.error is not None:
            log.debug("job %s is not done: %s", held.job.id, end.error)
        if self._hooks:
            seconds = time.monotonic() - held.started
            kind: EndKind = _kind(end) if is_held else "lost"
            self._hooks.emit(JobEnded(held.job, kind, seconds, end.error))

    def _run_too_long(self, held: HeldJob) -> None:
        self._leases.abort(held, "max_run")
        loop = asyncio.get_running_loop()
        held.timer = loop.call_later(ABORT_LIMIT, self._give_up, held)

    def _give_up(self, held: HeldJob) -> None:
        """The handler does not notice that it should stop. Its slot stays in use."""
        if held in self._running and self._max_run is not None:
            log.warning("the handler of job %s does not stop; its end is reported", held.job.id)
            self._report(held, too_long(held.job, self._max_run))

    async def end(self, grace: float) -> None:
        """Waits for the handlers, and aborts the others. Their jobs are given back."""
        await self._wait(grace)
        self.abort()
        await self._wait(ABORT_LIMIT)
        if self._running:
            log.warning("handlers do not stop: jobs=%d; they are given back", len(self._running))
        for held in self._leases:
            self._leases.remove(held)
            self._reports.add(released(held.job.lease), held.expires)

    def abort(self) -> None:
        """Tells all handlers to stop, since the worker stops."""
        for held in list(self._running):
            self._leases.abort(held, "stopping")

    async def _wait(self, seconds: float) -> None:
        tasks = [held.task for held in self._running if held.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)


def _kind(end: RunEnd) -> EndKind:
    if end.kind == "fail":
        return "dead" if end.is_dead else "failed"
    return "done" if end.kind == "ack" else "released"
