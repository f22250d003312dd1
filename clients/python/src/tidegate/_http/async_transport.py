"""Sends requests with asyncio."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import httpx

from ..errors import TidegateError
from .call import Answer, Call, read_answer
from .failures import error_of_failure, no_answer
from .problems import error_of_answer
from .repeat import Repetitions
from .settings import Settings, connection_limits

T = TypeVar("T")
_log = logging.getLogger("tidegate")


class AsyncTransport:
    """Connections to a server, kept open between requests. All tasks of one event loop may share it."""

    def __init__(
        self,
        settings: Settings,
        http: httpx.AsyncClient | None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.settings = settings
        self._is_own = http is None
        self._http = http or httpx.AsyncClient(limits=connection_limits())
        self._headers = [(n.encode(), v.encode()) for n, v in settings.headers().items()]
        self.sleep = sleep

    async def close(self) -> None:
        """Closes the connections, if this object has made them."""
        if self._is_own:
            await self._http.aclose()

    async def send(self, call: Call[T]) -> T:
        """Sends a request, and repeats it after errors as it allows."""
        repetitions = Repetitions(self.settings.limits, call.method, safe=call.safe, give_up_after=call.give_up_after)
        while True:
            try:
                return await self.send_once(call)
            except TidegateError as error:
                delay = repetitions.delay_after(error)
                _log.info("%s failed: %s; repeating it in %.1f s", call.path, error, delay)
            await self.sleep(delay)

    async def send_once(self, call: Call[T], limit: float | None = None) -> T:
        """Sends a request once. An answer other than a success is an error."""
        limit = self.settings.limit(call) if limit is None else limit
        try:
            response = await asyncio.wait_for(self._request(call), limit)
        except (asyncio.TimeoutError, TimeoutError) as error:
            raise no_answer(limit) from error
        except (httpx.RequestError, httpx.InvalidURL) as error:
            raise error_of_failure(error) from error
        if response.is_success:
            return read_answer(call, Answer(response.status_code, response.headers, response.content))
        raise error_of_answer(response.status_code, response.headers, response.content)

    async def _request(self, call: Call[T]) -> httpx.Response:
        return await self._http.request(
            call.method,
            self.settings.url(call),
            headers=[*self._headers, *call.headers],
            content=call.body,
            timeout=self.settings.timeout(call),
        )
