"""The jobs of the fake, and how their states change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..content import Content

_FIRST_MS, _MAX_MS, _FACTOR = 1000, 3_600_000, 2.0
MAX_ATTEMPTS = 10
LEASE_MS = 60_000


@dataclass
class FakeJob:
    """A job of the fake."""

    id: str
    queue: str
    content: Content
    attributes: dict[str, str]
    options: dict[str, Any]
    """The options of its publish, as the client sent them."""
    created_ms: int
    run_ms: int
    number: int
    """The place among the jobs that are due at the same time."""
    state: str = "delayed"
    attempt: int = 0
    failures: int = 0
    losses: int = 0
    lease_ms: int = LEASE_MS
    lease_until: int = 0
    done_ms: int = 0
    cancel_requested: bool = False
    newer: FakeJob | None = None
    """The version that runs when this run has ended."""
    result: Content | None = None
    reason: str | None = None
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def key(self) -> str | None:
        """Its key, if it has one."""
        key: str | None = self.options.get("key")
        return key

    @property
    def lease(self) -> str:
        """The name of its current delivery."""
        return f"{self.id}.{self.attempt}.{self.queue}"

    @property
    def max_attempts(self) -> int:
        """After how many failures it is dead."""
        retry = self.options.get("retry") or {}
        return int(self.options.get("max_attempts") or retry.get("max_attempts") or MAX_ATTEMPTS)

    def is_due(self, now: int) -> bool:
        """Whether a worker may have it."""
        return self.state in ("delayed", "ready") and self.run_ms <= now

    def take(self, now: int, lease_ms: int | None) -> None:
        """A worker reserves it."""
        self.state = "leased"
        self.attempt += 1
        self.lease_ms = lease_ms or ms_of(self.options.get("lease")) or LEASE_MS
        self.lease_until = now + self.lease_ms

    def wait_until(self, ms: int, now: int) -> None:
        """It is due then."""
        self.run_ms = ms
        self.state = "delayed" if ms > now else "ready"

    def retry_delay(self) -> int:
        """The delay after its last failure, without the random part."""
        retry = self.options.get("retry") or {}
        if "every" in retry:
            return ms_of(retry["every"]) or 0
        if retry.get("delays"):
            delays = retry["delays"]
            return ms_of(delays[min(self.failures, len(delays)) - 1]) or 0
        first = ms_of(retry.get("first")) or _FIRST_MS
        longest = ms_of(retry.get("max")) or _MAX_MS
        growth = float(retry.get("factor", _FACTOR)) ** min(self.failures - 1, 100)
        return min(int(first * growth), longest)

    def fail(self, error: str, now: int, retry_ms: int | None, is_dead: bool) -> None:
        """An attempt has failed."""
        self.failures += 1
        self.history.append({"attempt": self.attempt, "ended_at": now, "error": error})
        del self.history[:-10]
        if is_dead or self.failures >= self.max_attempts:
            self.state, self.reason = "dead", "permanent" if is_dead else "failures"
            return
        self.wait_until(now + (self.retry_delay() if retry_ms is None else retry_ms), now)

    def lose(self, now: int) -> None:
        """Its lease has expired."""
        self.losses += 1
        self.state, self.run_ms = "ready", now
        if self.losses >= 5:
            self.state, self.reason = "dead", "losses"


def ms_of(text: str | None) -> int | None:
    """A duration as the client writes it, in ms."""
    return None if text is None else int(text.removesuffix("ms"))
