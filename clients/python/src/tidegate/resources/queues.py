"""Queues as a whole, and their policies. The methods of `Queues` and `AsyncQueues` are the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Literal

from .._calls import queues as calls
from .._http.async_transport import AsyncTransport
from .._http.sync_transport import SyncTransport
from ..answers import Policy, QueueInfo
from ..options import PolicyChange


class Queues:
    """The queues of the namespace."""

    def __init__(self, transport: SyncTransport) -> None:
        self._transport = transport

    def show(self, queue: str) -> QueueInfo:
        """How many jobs a queue has, by state. A queue that was never used has zeros."""
        return self._transport.send(calls.show(queue))

    def list(self, *, page_size: int | None = None) -> Iterator[QueueInfo]:
        """All queues of the namespace, in no order. Pages (100 queues by default) are read as the list is read."""
        return calls.list_queues(page_size).each(self._transport)

    def policy(self, queue: str) -> Policy:
        """The policy of a queue."""
        return self._transport.send(calls.policy(queue))

    def set_policy(self, queue: str, change: PolicyChange, *, if_match: str | None = None) -> Policy:
        """Changes the policy of a queue: fields that are not named stay as they are, `None` is the default.

        The change is in effect everywhere within a second. With `if_match`, only the version with this `etag` is
        changed; the etag `"0"` (with the quotes) is a queue without a policy.

        Raises:
            ConflictError: The version is another one (`version_mismatch`).
        """
        return self._transport.send(calls.set_policy(queue, change, if_match, replaces=False))

    def replace_policy(self, queue: str, policy: PolicyChange, *, if_match: str | None = None) -> Policy:
        """Replaces the policy of a queue: fields that are not named have their defaults.

        Raises:
            ConflictError: The version is another one (`version_mismatch`).
        """
        return self._transport.send(calls.set_policy(queue, policy, if_match, replaces=True))

    def purge(self, queue: str, state: Literal["ready", "dead"]) -> int:
        """Deletes all ready or all dead jobs; returns how many. After an error some may be deleted."""
        return self._transport.send(calls.purge(queue, state))

    def respawn(self, queue: str, *, limit: int | None = None, rate_per_second: int | None = None) -> int:
        """Brings dead jobs back, oldest first, with all their attempts; returns how many.

        With `rate_per_second` they become due at even spaces. After an error some jobs may be back.
        """
        return self._transport.send(calls.respawn(queue, limit, rate_per_second))

    def delete(self, queue: str) -> None:
        """Deletes a queue with its policy.

        Raises:
            ConflictError: The queue has jobs (`queue_not_empty`): purge it first.
        """
        self._transport.send(calls.delete(queue))


class AsyncQueues:
    """The queues of the namespace."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def show(self, queue: str) -> QueueInfo:
        """How many jobs a queue has, by state. A queue that was never used has zeros."""
        return await self._transport.send(calls.show(queue))

    def list(self, *, page_size: int | None = None) -> AsyncIterator[QueueInfo]:
        """All queues of the namespace, in no order. Pages (100 queues by default) are read as the list is read."""
        return calls.list_queues(page_size).each_async(self._transport)

    async def policy(self, queue: str) -> Policy:
        """The policy of a queue."""
        return await self._transport.send(calls.policy(queue))

    async def set_policy(self, queue: str, change: PolicyChange, *, if_match: str | None = None) -> Policy:
        """Changes the policy of a queue: fields that are not named stay as they are, `None` is the default.

        The change is in effect everywhere within a second. With `if_match`, only the version with this `etag` is
        changed; the etag `"0"` (with the quotes) is a queue without a policy.

        Raises:
            ConflictError: The version is another one (`version_mismatch`).
        """
        return await self._transport.send(calls.set_policy(queue, change, if_match, replaces=False))

    async def replace_policy(self, queue: str, policy: PolicyChange, *, if_match: str | None = None) -> Policy:
        """Replaces the policy of a queue: fields that are not named have their defaults.

        Raises:
            ConflictError: The version is another one (`version_mismatch`).
        """
        return await self._transport.send(calls.set_policy(queue, policy, if_match, replaces=True))

    async def purge(self, queue: str, state: Literal["ready", "dead"]) -> int:
        """Deletes all ready or all dead jobs; returns how many. After an error some may be deleted."""
        return await self._transport.send(calls.purge(queue, state))

    async def respawn(self, queue: str, *, limit: int | None = None, rate_per_second: int | None = None) -> int:
        """Brings dead jobs back, oldest first, with all their attempts; returns how many.

        With `rate_per_second` they become due at even spaces. After an error some jobs may be back.
        """
        return await self._transport.send(calls.respawn(queue, limit, rate_per_second))

    async def delete(self, queue: str) -> None:
        """Deletes a queue with its policy.

        Raises:
            ConflictError: The queue has jobs (`queue_not_empty`): purge it first.
        """
        await self._transport.send(calls.delete(queue))
