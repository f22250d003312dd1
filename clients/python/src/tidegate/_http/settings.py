"""Where the server is, and how requests are sent to it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlsplit

import httpx

from .._values import seconds
from .._version import __version__
from ..errors import InvalidRequestError
from .call import Call, segment
from .repeat import RepeatLimits

TIME_LIMIT = timedelta(seconds=10)
_CONNECT_SECONDS_MAX = 5.0
# Without a limit, since calls that wait for results would keep a worker from extending its leases.
_CONNECTIONS = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=30.0)


@dataclass(frozen=True)
class Settings:
    """The settings of a client."""

    base: str
    """The URL up to the namespace."""
    namespace: str
    key: str = field(repr=False)
    time_limit: float
    """How long one request may take besides its wait, in seconds."""
    limits: RepeatLimits

    @staticmethod
    def of(
        url: str | None,
        key: str | None,
        namespace: str | None,
        time_limit: timedelta,
        limits: RepeatLimits | None,
    ) -> Settings:
        """The settings from arguments, or from the environment.

        Raises:
            InvalidRequestError: A setting is missing or not valid.
        """
        url = _setting("url", url, "TIDEGATE_URL").rstrip("/")
        namespace = _setting("namespace", namespace, "TIDEGATE_NAMESPACE")
        key = _setting("key", key, "TIDEGATE_KEY").strip()
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise InvalidRequestError("the API key has characters that no API key has", field="key")
        return Settings(
            base=f"{_checked(url)}/v1/{segment('namespace', namespace)}",
            namespace=namespace,
            key=key,
            time_limit=seconds("time_limit", time_limit),
            limits=limits or RepeatLimits(),
        )

    def headers(self) -> dict[str, str]:
        """The headers of all requests."""
        return {
            "authorization": f"Bearer {self.key}",
            "user-agent": f"tidegate-python/{__version__}",
            "accept": "application/json, */*",
            # Jobs are small: to compress them costs more time than it saves.
            "accept-encoding": "identity",
        }

    def url(self, call: Call[object]) -> str:
        """The URL of a request."""
        return self.base + call.path

    def limit(self, call: Call[object]) -> float:
        """How long a request may take in total, in seconds."""
        return self.time_limit + call.wait

    def timeout(self, call: Call[object]) -> httpx.Timeout:
        """How long each step of a request may take."""
        return httpx.Timeout(self.limit(call), connect=min(self.time_limit, _CONNECT_SECONDS_MAX))


def connection_limits() -> httpx.Limits:
    """The size of the pool of connections."""
    return _CONNECTIONS


def _setting(name: str, value: str | None, variable: str) -> str:
    value = value or os.environ.get(variable)
    if not value:
        text = f"the client has no {name}: pass {name}=…, or set the variable {variable}"
        raise InvalidRequestError(text, field=name)
    return value


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_server = parts.scheme in ("http", "https") and bool(parts.hostname)
        has_more = bool(parts.query or parts.fragment or parts.username)
    except ValueError:
        is_server = has_more = False
    if not is_server or has_more:
        # The text of the URL is not shown: it may have a password.
        text = "the URL names no server: write it like https://tidegate.example.com"
        raise InvalidRequestError(text, field="url")
    return url
