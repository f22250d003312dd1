"""Lists that have pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .._http.async_transport import AsyncTransport
from .._http.call import Answer, Call, with_query
from .._http.sync_transport import SyncTransport
from ..errors import ServerError

T = TypeVar("T")
Parameters = list[tuple[str, object]]


@dataclass(frozen=True)
class Pages(Generic[T]):
    """A list: its path, its parameters, and how an item is read."""

    path: str
    item: Callable[[Mapping[str, Any]], T]
    page_size: int | None = None
    parameters: tuple[tuple[str, object], ...] = ()

    def _call(self, cursor: str | None) -> Call[tuple[list[T], str | None]]:
        parameters = [*self.parameters, ("limit", self.page_size), ("cursor", cursor)]
        return Call("GET", with_query(self.path, parameters), self._read)

    def _read(self, answer: Answer) -> tuple[list[T], str | None]:
        page = answer.json()
        return [self.item(raw) for raw in page["items"]], page.get("next")

    def each(self, transport: SyncTransport) -> Iterator[T]:
        """All items of all pages."""
        cursor: str | None = None
        while True:
            items, following = transport.send(self._call(cursor))
            yield from items
            if following is None:
                return
            cursor = moved(cursor, following)

    async def each_async(self, transport: AsyncTransport) -> AsyncIterator[T]:
        """All items of all pages."""
        cursor: str | None = None
        while True:
            items, following = await transport.send(self._call(cursor))
            for item in items:
                yield item
            if following is None:
                return
            cursor = moved(cursor, following)


def moved(cursor: str | None, following: str) -> str:
    """The cursor of the next page. One that does not move would be asked for without an end."""
    if following == cursor:
        raise ServerError("the server has returned the same cursor twice", status=200)
    return following
