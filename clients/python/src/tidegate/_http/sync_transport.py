"""Sends requests, and blocks the thread until they are answered."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
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


class SyncTransport:
    """Connections to a server, kept open between requests. Threads may share it."""

    def __init__(
        self,
        settings: Settings,
        http: httpx.Client | None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.settings = settings
        self._is_own = http is None
        self._http = http or httpx.Client(limits=connection_limits())
        self._headers = [(n.encode(), v.encode()) for n, v in settings.headers().items()]
        self.sleep = sleep

    def close(self) -> None:
        """Closes the connections, if this object has made them."""
        if self._is_own:
            self._http.close()

    def send(self, call: Call[T]) -> T:
        """Sends a request, and repeats it after errors as it allows."""
        repetitions = Repetitions(self.settings.limits, call.method, safe=call.safe, give_up_after=call.give_up_after)
        while True:
            try:
                return read_answer(call, self._exchange(call))
            except TidegateError as error:
                delay = repetitions.delay_after(error)
                _log.info("%s failed: %s; repeating it in %.1f s", call.path, error, delay)
            self.sleep(delay)

    def _exchange(self, call: Call[T]) -> Answer:
        """Sends a request once. An answer other than a success is an error."""
        limit = self.settings.limit(call)
        deadline = time.monotonic() + limit
        try:
            with self._http.stream(
                call.method,
                self.settings.url(call),
                headers=[*self._headers, *call.headers],
                content=call.body,
                timeout=self.settings.timeout(call),
            ) as response:
                body = bytearray()
                for chunk in response.iter_bytes():
                    body += chunk
                    if time.monotonic() > deadline:
                        raise no_answer(limit)
        except (httpx.RequestError, httpx.InvalidURL) as error:
            raise error_of_failure(error) from error
        if response.is_success:
            return Answer(response.status_code, response.headers, bytes(body))
        raise error_of_answer(response.status_code, response.headers, bytes(body))
