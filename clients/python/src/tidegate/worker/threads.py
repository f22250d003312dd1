"""Threads for handlers that are plain functions."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any

_Work = tuple[Callable[[], Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]
_IDLE_SECONDS = 10.0


class HandlerThreads:
    """Threads that run functions, and end when they were idle for a while.

    They are daemons, unlike the threads of `concurrent.futures`: a function that hangs keeps no process from ending.
    """

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0

    def run(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Starts a function in a thread, with the context of the caller. The future has its result."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()
        self._work.put((lambda: context.run(function), future, loop))
        with self._lock:
            # An idle thread takes the work.
            is_thread_needed = self._idle <= 0
            self._idle -= 0 if is_thread_needed else 1
        if is_thread_needed:
            threading.Thread(target=self._serve, name="tidegate-handler", daemon=True).start()
        return future

    def _serve(self) -> None:
        while True:
            try:
                function, future, loop = self._work.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if self._idle <= 0:
                        # Work for this thread is on its way.
                        continue
                    self._idle -= 1
                return
            result, error = _called(function)
            with self._lock:
                # Before the future is done: the next function may come at once.
                self._idle += 1
            # The loop is closed if the worker did not wait for this function.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_finish, future, result, error)
            del function, future, result, error


def _called(function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return function(), None
    except BaseException as error:
        return None, error


def _finish(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if isinstance(error, StopIteration) or not isinstance(error, (Exception, type(None))):
        # A future does not accept the first; the others, such as `SystemExit`, would end the event loop.
        error = RuntimeError(f"the handler has raised {error!r}")
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
