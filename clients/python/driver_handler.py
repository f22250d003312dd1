"""The handler of the worker of the driver."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from datetime import timedelta
from typing import Any

import tidegate
from driver_views import Command, emit
from tidegate import Job


async def handle(job: Job) -> Any:
    """The handler of the worker, which does as the payload says."""
    about = {"job": job.id, "attempt": job.attempt}
    emit({"event": "started", **about, "queue": job.queue})
    payload = job.payload if isinstance(job.payload, dict) else {}
    try:
        await block(payload.get("block_ms", 0))
        if payload.get("sleep_ms"):
            await asyncio.sleep(payload["sleep_ms"] / 1000)
    except asyncio.CancelledError:
        emit({"event": "aborted", **about, "reason": job.abort_reason})
        raise
    emit({"event": "ended", **about})
    return end(payload)


def end(payload: Command) -> Any:
    """Ends a job as its payload says."""
    then = payload.get("then", "ok")
    if then == "result":
        return payload["result"]
    if then == "fail":
        raise RuntimeError(payload["error"])
    if then == "retry_in":
        raise tidegate.RetryIn("asked", timedelta(milliseconds=payload["ms"]))
    if then == "dead":
        raise tidegate.Dead("asked")
    if then == "snooze":
        raise tidegate.Snooze(timedelta(milliseconds=payload["ms"]))
    return None


async def block(ms: int) -> None:
    """Waits in a way that cannot be aborted, in a thread of its own, so that others go on."""
    if not ms:
        return
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def sleep() -> None:
        time.sleep(ms / 1000)
        loop.call_soon_threadsafe(done.set)

    threading.Thread(target=sleep, daemon=True).start()
    while not done.is_set():
        try:
            await done.wait()
        except asyncio.CancelledError:
            logging.info("the handler ignores its abort")
