"""Requests that get no answer, as errors."""

from __future__ import annotations

import httpx

from ..errors import ConnectionError, InvalidRequestError, TidegateError

_NOTHING_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_NOT_VALID = (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError)


def error_of_failure(error: Exception) -> TidegateError:
    """The error of a request that got no answer."""
    text = str(error) or type(error).__name__
    if isinstance(error, _NOT_VALID):
        return InvalidRequestError(f"the request cannot be sent: {text}")
    if isinstance(error, _NOTHING_SENT):
        return ConnectionError(f"failed to connect to the server: {text}", applied="no")
    return ConnectionError(f"the connection to the server broke: {text}", applied="unknown")


def no_answer(seconds: float) -> TidegateError:
    """The error of a request that took too long."""
    return ConnectionError(f"no answer within {seconds:g} s", applied="unknown")
