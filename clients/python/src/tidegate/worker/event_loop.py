"""Runs a coroutine, and ends in bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_END_LIMIT = 1.0


def run_bounded(main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine in a new event loop.

    Unlike `asyncio.run`, it does not wait for tasks and threads that do not end: handlers that ignore their abort.
    """
    loop = asyncio.new_event_loop()
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(main)
    finally:
        try:
            _cancel_all(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=_END_LIMIT))
