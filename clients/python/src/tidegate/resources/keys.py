"""API keys. The methods of `Keys` and `AsyncKeys` are the same. All need the scope `admin`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime

from .._calls import keys as calls
from .._http.async_transport import AsyncTransport
from .._http.sync_transport import SyncTransport
from ..answers import ApiKey, CreatedKey
from ..options import Scope


class Keys:
    """The API keys of the namespace."""

    def __init__(self, transport: SyncTransport) -> None:
        self._transport = transport

    def create(self, scopes: Sequence[Scope], description: str, *, expires_at: datetime | None = None) -> CreatedKey:
        """Creates an API key within the scopes and the expiry of the key of the client.

        Only this answer has the secret. After an error with `applied` `unknown` there may be a key that nobody knows:
        look for it in the list, and revoke it.
        """
        return self._transport.send(calls.create(scopes, description, expires_at))

    def list(self, *, page_size: int | None = None) -> Iterator[ApiKey]:
        """All API keys of the namespace, without their secrets."""
        return calls.list_keys(page_size).each(self._transport)

    def revoke(self, id: str) -> None:
        """Revokes an API key. It is refused everywhere within a second.

        Raises:
            NotFoundError: There is no such key.
        """
        self._transport.send(calls.revoke(id))


class AsyncKeys:
    """The API keys of the namespace."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(
        self, scopes: Sequence[Scope], description: str, *, expires_at: datetime | None = None
    ) -> CreatedKey:
        """Creates an API key within the scopes and the expiry of the key of the client.

        Only this answer has the secret. After an error with `applied` `unknown` there may be a key that nobody knows:
        look for it in the list, and revoke it.
        """
        return await self._transport.send(calls.create(scopes, description, expires_at))

    def list(self, *, page_size: int | None = None) -> AsyncIterator[ApiKey]:
        """All API keys of the namespace, without their secrets."""
        return calls.list_keys(page_size).each_async(self._transport)

    async def revoke(self, id: str) -> None:
        """Revokes an API key. It is refused everywhere within a second.

        Raises:
            NotFoundError: There is no such key.
        """
        await self._transport.send(calls.revoke(id))
