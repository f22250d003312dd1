"""Workers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from .. import _tracing
from .._values import duration_ms, seconds
from ..async_client import AsyncClient
from ..errors import InvalidRequestError
from .event_loop import run_bounded
from .events import Hook, Hooks, log
from .handlers import Handler, JobRunner, Middleware, runner_of, wrapped
from .job import Job
from .reserve_call import ReserveSettings
from .run import RunSettings, WorkerRun
from .stop_signals import stop_on_signals
from .threads import HandlerThreads

if TYPE_CHECKING:
    from typing_extensions import Self

_QUEUES_MAX = 16
_NAME_BYTES_MAX = 128

H = TypeVar("H", bound=Handler)
M = TypeVar("M", bound=Middleware)
K = TypeVar("K", bound=Hook)


class Worker:
    """Runs handlers for the jobs of queues.

    A handler is a coroutine function, or a plain function, which runs in a thread. Leases are extended as long as a
    handler runs. A coroutine function that blocks the event loop delays all others, and the extension of leases: use a
    plain function for that.

    Args:
        client: The client. By default the worker makes one from the environment, and closes it.
        slots: How many jobs run at the same time.
        prefetch: How many jobs may wait in this process for a slot. 64 keeps the slots busy if handlers take less than
            about 10 ms.
        name: The name with which the server lists the worker, 1 to 128 bytes. Default: `HOST:PID`.
        lease: The length of leases, 100 ms to 24 h: after so long without a sign of this worker its jobs are delivered
            to another one. Default: as the jobs or the policies of their queues say.
        wait: How long a reserve request waits for jobs.
        max_run: How long a handler may run. Then it is aborted, and the attempt has failed. Default: no limit.
        grace: How long handlers may run after the stop of the worker.
        strict: Serves the queues in the order of their handlers: a queue only if all before it are empty. By default
            the order is random, so that none starves.
        weights: Queues and their weights, 1 to 100. A queue of weight 3 is first three times as often as a queue of
            weight 1, which is the default.
    """

    def __init__(
        self,
        client: AsyncClient | None = None,
        *,
        slots: int = 64,
        prefetch: int = 0,
        name: str | None = None,
        lease: timedelta | None = None,
        wait: timedelta = timedelta(seconds=20),
        max_run: timedelta | None = None,
        grace: timedelta = timedelta(seconds=25),
        strict: bool = False,
        weights: Mapping[str, int] | None = None,
    ) -> None:
        if slots < 1 or prefetch < 0:
            raise InvalidRequestError("a worker has at least one slot", field="slots")
        self._client = client
        self._settings = RunSettings(slots, prefetch, None if max_run is None else seconds("max_run", max_run))
        self._name = name or _default_name()
        self._lease_ms = None if lease is None else duration_ms("lease", lease)
        self._wait = seconds("wait", wait)
        self._grace = seconds("grace", grace)
        self._strict = strict
        self._weights = dict(weights or {})
        self._handlers: dict[str, Handler] = {}
        self._middleware: list[Middleware] = []
        self._hooks = Hooks()
        self._running: tuple[asyncio.AbstractEventLoop, WorkerRun] | None = None
        self._background: asyncio.Task[None] | None = None

    def handler(self, queue: str) -> Callable[[H], H]:
        """Decorates the handler of a queue.

        The function has a parameter for the payload, a parameter for the job (of the type `Job`, or named `job`), or
        both. A payload whose parameter is annotated with a model of pydantic is validated; a payload that is not valid
        makes the job dead. The value that the function returns is the result of the job.
        """

        def add(function: H) -> H:
            self.add(queue, function)
            return function

        return add

    def add(self, queue: str, handler: Handler) -> None:
        """Sets the handler of a queue, as `handler` does.

        Raises:
            InvalidRequestError: The queue has a handler already, or the worker has 16 queues.
            TypeError: The parameters of the function are no parameters of a handler.
        """
        if queue in self._handlers:
            raise InvalidRequestError(f"the queue {queue} has two handlers", field="queue")
        if len(self._handlers) >= _QUEUES_MAX:
            raise InvalidRequestError("a worker has up to 16 queues: run several", field="queue")
        runner_of(handler, HandlerThreads())
        self._handlers[queue] = handler

    def middleware(self, function: M) -> M:
        """Decorates a coroutine function that wraps all handlers: `async def f(job, call_next)`.

        It returns `await call_next(job)`, or something else. Middleware that was added first is outside.
        """
        self._middleware.append(function)
        return function

    def hook(self, function: K) -> K:
        """Decorates a function that gets the events of the worker, for logs and metrics. It must not block."""
        self._hooks.add(function)
        return function

    def run(self) -> None:
        """Runs the worker until it is stopped, by SIGTERM, SIGINT or `stop`. A second signal ends the process at once.

        Raises:
            AuthError: The server rejects the requests of the worker.
            InvalidRequestError: The worker has no handler.
        """
        run_bounded(self.serve(signals=True))

    async def serve(self, *, signals: bool = False) -> None:
        """Runs the worker in the running event loop until it is stopped.

        If this is cancelled, the worker stops without the grace period: its handlers are aborted, and their jobs given
        back.

        Args:
            signals: Stops the worker on SIGTERM and SIGINT, as `run` does.

        Raises:
            AuthError: The server rejects the requests of the worker.
            InvalidRequestError: The worker has no handler, or runs already.
        """
        if not self._handlers:
            raise InvalidRequestError("the worker has no handler")
        if self._running is not None:
            raise InvalidRequestError("the worker runs already")
        client = self._client or AsyncClient()
        run = WorkerRun(client._transport, self._runners(), self._reserve(), self._settings, self._hooks)
        self._running = (asyncio.get_running_loop(), run)
        try:
            with stop_on_signals(self.stop) if signals else contextlib.nullcontext():
                await run.run(self._grace)
        finally:
            self._running = None
            if self._client is None:
                await client.close()

    def stop(self, *, grace: timedelta | None = None) -> None:
        """Begins the stop of the worker, and returns at once. Any thread may call it.

        No further jobs are reserved. Handlers have the grace period to finish, and their leases are extended meanwhile.
        The others are aborted, and their jobs given back. The ends of all jobs are reported, for up to 10 s.
        """
        period = self._grace if grace is None else seconds("grace", grace)
        running = self._running
        if running is not None:
            loop, run = running
            # The loop is closed if the worker has just ended.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(run.stop, period)

    async def __aenter__(self) -> Self:
        """Runs the worker in the background, until the block ends."""
        self._background = asyncio.get_running_loop().create_task(self.serve())
        self._background.add_done_callback(_log_end)
        # An error of the settings is raised here.
        await asyncio.sleep(0)
        if self._background.done():
            self._background.result()
        return self

    async def __aexit__(self, *_: object) -> None:
        background, self._background = self._background, None
        assert background is not None
        self.stop()
        await background

    def _runners(self) -> dict[str, JobRunner]:
        """The handler of each queue, inside of all middleware."""
        threads = HandlerThreads()
        middleware = list(self._middleware)
        if _tracing.is_available():
            middleware.insert(0, _traced(_tracing.tracer()))
        return {queue: wrapped(runner_of(handler, threads), middleware) for queue, handler in self._handlers.items()}

    def _reserve(self) -> ReserveSettings:
        return ReserveSettings(
            queues=tuple(self._handlers),
            weights=self._weights,
            strict=self._strict,
            wait=self._wait,
            lease_ms=self._lease_ms,
            name=self._name,
        )


def _traced(tracer: Any) -> Middleware:
    async def run(job: Job, call_next: JobRunner) -> Any:
        with _tracing.delivery_span(tracer, job):
            return await call_next(job)

    return run


def _log_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("the worker has ended: %s", task.exception())


def _default_name() -> str:
    """A name that is unique among processes, and says where to look for the worker."""
    host = socket.gethostname().encode()[: _NAME_BYTES_MAX - 16].decode("utf-8", "ignore")
    return f"{host}:{os.getpid()}"
