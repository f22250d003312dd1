"""Requests about leases: reserve, ack, fail, touch and release."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from .._http.call import Answer, Call, json_call, raw_json_call
from .._json import JSON, encode, spliced
from .._values import duration_ms, duration_text
from ..answers import Outcome
from ..worker.ends import Ack
from ..worker.job import Job


def queue_choices(queues: Sequence[str] | Mapping[str, int]) -> list[Any]:
    """Queues, or queues with their weights, as a reserve names them."""
    if isinstance(queues, str):
        return [queues]
    if isinstance(queues, Mapping):
        return [{"name": queue, "weight": weight} for queue, weight in queues.items()]
    return list(queues)


def reserve(
    queues: Sequence[str] | Mapping[str, int],
    max_jobs: int,
    wait: timedelta,
    lease: timedelta | None,
    worker: str | None,
) -> Call[list[Job]]:
    """Reserves ready jobs."""
    body: dict[str, Any] = {"queues": queue_choices(queues), "max_jobs": max_jobs}
    wait_ms = duration_ms("wait", wait)
    if wait_ms:
        body["wait"] = f"{wait_ms}ms"
    if lease is not None:
        body["lease"] = duration_text("lease", lease)
    if worker is not None:
        body["worker"] = worker
    return json_call("POST", "/reserve", body, _read_jobs, wait=wait_ms / 1000)


def _read_jobs(answer: Answer) -> list[Job]:
    return [Job(raw) for raw in answer.json()["jobs"]]


def ack(leases: Iterable[str | Job | Ack]) -> Call[list[Outcome]]:
    """Acknowledges jobs."""
    items = []
    for item in leases:
        if isinstance(item, Ack):
            items.append(ack_item(lease_text(item.lease), item.result, item.content_type))
        else:
            items.append(ack_item(lease_text(item), None))
    return settle_call("ack", items)


def settle_call(name: str, items: Sequence[bytes]) -> Call[list[Outcome]]:
    """A request whose leases are JSON already."""
    body = b"".join((b'{"leases":[', b",".join(items), b"]}"))
    return raw_json_call(f"/{name}", body, outcomes)


def fail(leases: Iterable[str | Job], error: str, retry_in: timedelta | None, dead: bool) -> Call[list[Outcome]]:
    """Reports attempts that failed."""
    how: dict[str, Any] = {"error": error}
    if retry_in is not None:
        how["retry_in"] = duration_text("retry_in", retry_in)
    if dead:
        how["dead"] = True
    items = [{"lease": lease_text(lease), **how} for lease in leases]
    return json_call("POST", "/fail", {"leases": items}, outcomes)


def touch(leases: Iterable[str | Job], lease: timedelta | None) -> Call[list[Outcome]]:
    """Extends leases."""
    body: dict[str, Any] = {"leases": [lease_text(lease) for lease in leases]}
    if lease is not None:
        body["lease"] = duration_text("lease", lease)
    return json_call("POST", "/touch", body, outcomes)


def release(leases: Iterable[str | Job], delay: timedelta | None) -> Call[list[Outcome]]:
    """Gives jobs back."""
    body: dict[str, Any] = {"leases": [lease_text(lease) for lease in leases]}
    if delay is not None:
        body["delay"] = duration_text("delay", delay)
    return json_call("POST", "/release", body, outcomes)


def lease_text(lease: str | Job) -> str:
    """The text of a lease, or of the lease of a job."""
    return lease if isinstance(lease, str) else lease.lease


def ack_item(lease: str, result: Any, content_type: str | None = None) -> bytes:
    """An entry of the body of an ack, as JSON.

    Raises:
        InvalidRequestError: The result cannot be written as JSON.
    """
    if result is None:
        return encode(lease)
    fields: dict[str, Any] = {"lease": lease}
    if isinstance(result, (bytes, bytearray, memoryview)):
        fields["result_base64"] = base64.b64encode(result).decode()
        if content_type is not None:
            fields["content_type"] = content_type
        return encode(fields)
    if content_type is not None and content_type != JSON:
        fields["content_type"] = content_type
    return spliced(fields, "result", encode(result, "result"))


def outcomes(answer: Answer) -> list[Outcome]:
    """The outcomes of an answer, one for each lease."""
    return [Outcome.of(raw) for raw in answer.json()["results"]]
