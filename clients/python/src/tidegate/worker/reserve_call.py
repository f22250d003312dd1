"""The request that reserves jobs, and takes the ends of others along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .._http.call import Answer, Call, raw_json_call
from .._json import encode
from .._values import instant
from .job import Job
from .leases import HeldJob
from .reports import Batch


@dataclass(frozen=True)
class Reserved:
    """The answer to a reserve."""

    held: list[HeldJob]
    lost: int
    """How many ends that it took along came too late."""


@dataclass(frozen=True)
class ReserveSettings:
    """The fields of each reserve of a worker."""

    queues: Sequence[str]
    weights: Mapping[str, int]
    strict: bool
    wait: float
    lease_ms: int | None
    name: str

    def call(self, max_jobs: int, batch: Batch | None) -> Call[Reserved]:
        """The request for so many jobs. It does not wait for them if it reports ends: its answer has the outcomes."""
        wait = self.wait if batch is None else 0.0
        body: dict[str, Any] = {
            "queues": [self._choice(queue) for queue in self.queues],
            "order": "strict" if self.strict else "weighted",
            "max_jobs": max_jobs,
            "wait": f"{round(wait * 1000)}ms",
            "worker": self.name,
        }
        if self.lease_ms is not None:
            body["lease"] = f"{self.lease_ms}ms"
        encoded = encode(body)
        if batch is not None:
            encoded = b"".join((encoded[:-1], b',"settle":', _settle(batch), b"}"))
        return raw_json_call("/reserve", encoded, _read, wait=wait)

    def _choice(self, queue: str) -> Any:
        if queue not in self.weights:
            return queue
        return {"name": queue, "weight": self.weights[queue]}


def _settle(batch: Batch) -> bytes:
    parts = [
        b"".join((b'"', name, b'":[', b",".join(one.end.item for one in ended), b"]"))
        for name, ended in ((b"ack", batch.acks), (b"fail", batch.fails))
        if ended
    ]
    return b"".join((b"{", b",".join(parts), b"}"))


def _read(answer: Answer) -> Reserved:
    raw = answer.json()
    jobs = raw["jobs"]
    # The clock of the server measures the leases; the clocks of both may differ.
    now = instant(raw["now"]) if jobs else None
    settled = raw.get("settled") or {}
    outcomes = [*settled.get("ack", ()), *settled.get("fail", ())]
    return Reserved(
        held=[HeldJob(Job(job), _length(job, now)) for job in jobs],
        lost=sum(outcome["outcome"] == "lost" for outcome in outcomes),
    )


def _length(job: Mapping[str, Any], now: datetime | None) -> float:
    assert now is not None
    return max(0.0, (instant(job["lease_until"]) - now).total_seconds())
