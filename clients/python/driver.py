"""The driver of the conformance suite: commands on the standard input, answers on the standard output.

With `--sync`, commands of the client use `tidegate.Client` in threads instead of `tidegate.AsyncClient`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import tidegate
from driver_handler import handle
from driver_views import (
    EPOCH,
    Command,
    content_view,
    emit,
    error_view,
    job_arguments,
    job_view,
    native,
    wire_instant,
)
from tidegate import AsyncClient, Client, Content, NewJob, Worker

_THREADS = 256


class Driver:
    """Carries out commands."""

    def __init__(self, client: AsyncClient, blocking: Client | None) -> None:
        self._async_client = client
        self._client: Any = blocking or client
        self._threads = ThreadPoolExecutor(_THREADS) if blocking else None
        self._worker: Worker | None = None
        self._work: asyncio.Task[None] | None = None
        self._is_stopped_by_command = False

    async def answer(self, command: Command) -> None:
        """Carries out a command, and writes its answer."""
        try:
            answer = {"ok": await self._handler(command["do"])(command)}
        except Exception as error:
            if not isinstance(error, tidegate.TidegateError):
                logging.exception("a command has failed")
            answer = {"error": error_view(error)}
        emit({"id": command.get("id"), **answer})

    def _handler(self, name: str) -> Callable[[Command], Coroutine[Any, Any, Any]]:
        handler = getattr(self, f"do_{name}", None)
        if handler is None:
            raise ValueError(f"unknown command: {name}")
        return handler  # type: ignore[no-any-return]

    async def _do(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Calls a method of the client, which blocks or not."""
        if self._threads is None:
            return await method(*arguments, **named)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: method(*arguments, **named))

    async def _all(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> list[Any]:
        """All items of a list, as the server wrote them."""
        if self._threads is None:
            return [item.raw async for item in method(*arguments, **named)]
        loop = asyncio.get_running_loop()
        listed = loop.run_in_executor(self._threads, lambda: list(method(*arguments, **named)))
        return [item.raw for item in await listed]

    async def do_publish(self, command: Command) -> Any:
        """Publishes a job."""
        published = await self._do(self._client.publish, command["queue"], **job_arguments(command))
        return published.raw

    async def do_publish_batch(self, command: Command) -> Any:
        """Publishes a batch."""
        jobs = [NewJob(**job_arguments(job)) for job in command["jobs"]]
        results = await self._do(
            self._client.publish_batch, command["queue"], jobs, atomic=command.get("atomic", False)
        )
        return [{"error": error_view(result)} if isinstance(result, Exception) else result.raw for result in results]

    async def do_publish_many(self, command: Command) -> Any:
        """Publishes many jobs, some of them at the same time."""
        numbers = iter(range(command["count"]))
        text = "x" * command.get("payload_bytes", 0)

        async def publish_some() -> None:
            for number in numbers:
                payload = {"n": number, "text": text}
                await self._do(self._client.publish, command["queue"], payload)

        await asyncio.gather(*(publish_some() for _ in range(command.get("concurrency", 1))))
        return {"published": command["count"]}

    async def do_call(self, command: Command) -> Any:
        """Publishes a job, and waits for its result."""
        wait = timedelta(milliseconds=command["wait_ms"])
        arguments = job_arguments(command)
        content = await self._do(self._client.call, command["queue"], wait=wait, **arguments)
        return content_view(content, "result")

    async def do_reserve(self, command: Command) -> Any:
        """Reserves jobs."""
        named = native({n: command[n] for n in ("wait_ms", "lease_ms") if n in command})
        if "max_jobs" in command:
            named["max_jobs"] = command["max_jobs"]
        jobs = await self._do(self._client.reserve, command["queues"], **named)
        return [job_view(job) for job in jobs]

    async def _outcomes(self, method: Callable[..., Any], command: Command, *names: str) -> Any:
        named = native({name: command[name] for name in names if name in command})
        outcomes = await self._do(method, command["leases"], **named)
        return [outcome.raw for outcome in outcomes]

    async def do_ack(self, command: Command) -> Any:
        """Acknowledges jobs."""
        return await self._outcomes(self._client.ack, command)

    async def do_touch(self, command: Command) -> Any:
        """Extends leases."""
        return await self._outcomes(self._client.touch, command, "lease_ms")

    async def do_release(self, command: Command) -> Any:
        """Gives jobs back."""
        return await self._outcomes(self._client.release, command, "delay_ms")

    async def do_fail(self, command: Command) -> Any:
        """Reports failures."""
        return await self._outcomes(self._client.fail, command, "error", "retry_in_ms", "dead")

    async def _of_job(self, name: str, command: Command, **named: Any) -> Any:
        method = getattr(self._client.jobs, name)
        return await self._do(method, command["queue"], **command["job"], **named)

    async def do_show(self, command: Command) -> Any:
        """Shows a job."""
        return (await self._of_job("show", command)).raw

    async def do_explain(self, command: Command) -> Any:
        """Explains a job."""
        return (await self._of_job("explain", command)).raw

    async def do_payload(self, command: Command) -> Any:
        """Reads a payload."""
        return content_view(await self._of_job("payload", command), "payload")

    async def do_result(self, command: Command) -> Any:
        """Reads a result."""
        wait = timedelta(milliseconds=command.get("wait_ms", 0))
        found = await self._of_job("result", command, wait=wait)
        return content_view(found, "payload" if isinstance(found, Content) else "result")

    async def do_promote(self, command: Command) -> Any:
        """Promotes a job."""
        return (await self._of_job("promote", command)).raw

    async def do_change(self, command: Command) -> Any:
        """Changes a job."""
        return (await self._of_job("change", command, **native(command["options"]))).raw

    async def do_cancel(self, command: Command) -> Any:
        """Cancels a job."""
        named = {"running": command["running"]} if "running" in command else {}
        return (await self._of_job("cancel", command, **named)).raw

    async def do_list_jobs(self, command: Command) -> Any:
        """Lists jobs."""
        named = native(command.get("filter", {}))
        size = command.get("page_size")
        return await self._all(self._client.jobs.list, command["queue"], page_size=size, **named)

    async def do_act(self, command: Command) -> Any:
        """Acts on many jobs."""
        named = {"filter": native(command.get("filter", {}))}
        options = dict(command.get("options", {}))
        if "change" in options:
            named["change"] = native(options.pop("change"))
        changes = {"delay_ms", "run_at_ms", "start_within_ms", "priority"} & options.keys()
        if changes:
            named["change"] = native({name: options.pop(name) for name in changes})
        named |= options
        done = await self._do(
            self._client.jobs.act,
            command["queue"],
            command["action"],
            dry_run=command.get("dry_run", False),
            **named,
        )
        return {"matched": done.matched, "changed": done.changed}

    async def do_queue(self, command: Command) -> Any:
        """Shows a queue."""
        return (await self._do(self._client.queues.show, command["queue"])).raw

    async def do_queues(self, command: Command) -> Any:
        """Lists queues."""
        return await self._all(self._client.queues.list, page_size=command.get("page_size"))

    async def do_policy(self, command: Command) -> Any:
        """Reads a policy."""
        return (await self._do(self._client.queues.policy, command["queue"])).raw

    async def do_set_policy(self, command: Command) -> Any:
        """Changes a policy."""
        method = self._client.queues.set_policy
        return (await self._do(method, command["queue"], command["policy"])).raw

    async def do_purge(self, command: Command) -> Any:
        """Purges a queue."""
        purge = self._client.queues.purge
        return {"deleted": await self._do(purge, command["queue"], command["state"])}

    async def do_respawn(self, command: Command) -> Any:
        """Respawns dead jobs."""
        method = self._client.queues.respawn
        respawned = await self._do(method, command["queue"], limit=command.get("limit"))
        return {"respawned": respawned}

    async def do_delete_queue(self, command: Command) -> Any:
        """Deletes a queue."""
        await self._do(self._client.queues.delete, command["queue"])
        return {"outcome": "deleted"}

    async def do_set_schedule(self, command: Command) -> Any:
        """Sets a schedule."""
        method = self._client.schedules.set
        return (await self._do(method, command["name"], command["schedule"])).raw

    async def do_schedule(self, command: Command) -> Any:
        """Shows a schedule."""
        return (await self._do(self._client.schedules.show, command["name"])).raw

    async def do_schedules(self, command: Command) -> Any:
        """Lists schedules."""
        return await self._all(self._client.schedules.list, page_size=command.get("page_size"))

    async def do_next_runs(self, command: Command) -> Any:
        """Lists the next ticks of a schedule."""
        method = self._client.schedules.next_runs
        runs = await self._do(method, command["name"], count=command.get("count"))
        return {"runs": [wire_instant(run) for run in runs]}

    async def do_delete_schedule(self, command: Command) -> Any:
        """Deletes a schedule."""
        await self._do(self._client.schedules.delete, command["name"])
        return {"outcome": "deleted"}

    async def do_create_key(self, command: Command) -> Any:
        """Creates a key."""
        spec = dict(command["key"])
        if isinstance(spec.get("expires_at"), str):
            text = spec["expires_at"].replace("Z", "+00:00")
            spec["expires_at"] = datetime.fromisoformat(text)
        elif "expires_at" in spec:
            spec["expires_at"] = EPOCH + timedelta(milliseconds=spec["expires_at"])
        scopes, description = spec.pop("scopes"), spec.pop("description", "")
        return (await self._do(self._client.keys.create, scopes, description, **spec)).raw

    async def do_keys(self, command: Command) -> Any:
        """Lists keys."""
        return await self._all(self._client.keys.list, page_size=command.get("page_size"))

    async def do_revoke_key(self, command: Command) -> Any:
        """Revokes a key."""
        await self._do(self._client.keys.revoke, command["key_id"])
        return {"outcome": "revoked", "id": command["key_id"]}

    async def do_work(self, command: Command) -> Any:
        """Starts the worker."""
        if self._work is not None:
            raise ValueError("the worker runs already")
        names = ("lease_ms", "wait_ms", "max_run_ms", "slots", "prefetch", "name", "strict", "weights")
        named = native({name: command[name] for name in names if name in command})
        self._worker = Worker(self._async_client, **named)
        for queue in command["queues"]:
            self._worker.add(queue, handle)
        self._work = asyncio.get_running_loop().create_task(self._worker.serve(signals=True))
        self._work.add_done_callback(self._worker_ended)
        await asyncio.sleep(0)
        return {}

    def _worker_ended(self, work: asyncio.Task[None]) -> None:
        error = None if work.cancelled() else work.exception()
        self._work = None
        if error is not None:
            emit({"event": "worker_ended", "error": error_view(error)})
            return
        emit({"event": "worker_ended"})
        if not self._is_stopped_by_command:
            # A signal has stopped it.
            os._exit(0)

    async def do_stop(self, command: Command) -> Any:
        """Stops the worker."""
        if self._worker is None or self._work is None:
            return {}
        self._is_stopped_by_command = True
        self._worker.stop(**native({n: command[n] for n in ("grace_ms",) if n in command}))
        await asyncio.wait([self._work])
        self._is_stopped_by_command = False
        return {}


def read_lines(loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[bytes]) -> None:
    """Reads commands in a thread, so that a command may be of any length."""
    for line in sys.stdin.buffer:
        loop.call_soon_threadsafe(lines.put_nowait, line)
    loop.call_soon_threadsafe(lines.put_nowait, b"")


async def main() -> None:
    """Carries out commands until the standard input ends."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    threading.Thread(target=read_lines, args=(loop, lines), daemon=True).start()
    driver = Driver(AsyncClient(), Client() if "--sync" in sys.argv else None)
    tasks: set[asyncio.Task[None]] = set()
    while line := await lines.get():
        if not line.strip():
            continue
        command = json.loads(line)
        if command["do"] == "end":
            os._exit(9)
        task = loop.create_task(driver.answer(command))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    if tasks:
        await asyncio.wait(tasks, timeout=5)
    await driver.do_stop({"grace_ms": 0})
    os._exit(0)


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    asyncio.run(main())
