"""Fixtures, and clients whose requests a function answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import pytest

from tidegate import AsyncClient, Client, RepeatLimits
from tidegate.testing import FakeServer

Answer = Callable[[httpx.Request], httpx.Response]
SETTINGS = {"key": "tg_A_B", "namespace": "shop"}
URL = "http://server.invalid"


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIDEGATE_URL", "TIDEGATE_KEY", "TIDEGATE_NAMESPACE", "TIDEGATE_PROGRAM"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def fake() -> FakeServer:
    return FakeServer()


def sync_client(answer: Answer, *, slept: list[float] | None = None, repeat: RepeatLimits | None = None) -> Client:
    """A client whose requests are answered by a function, and which does not really sleep."""
    http = httpx.Client(transport=httpx.MockTransport(answer))
    client = Client(URL, key="tg_A_B", namespace="shop", http=http, repeat=repeat)
    client._transport.sleep = [].append if slept is None else slept.append
    return client


def async_client(answer: Answer, *, slept: list[float] | None = None) -> AsyncClient:
    """As `sync_client`, for asyncio."""
    times: list[float] = [] if slept is None else slept

    async def sleep(seconds: float) -> None:
        times.append(seconds)
        await asyncio.sleep(0)

    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    client = AsyncClient(URL, key="tg_A_B", namespace="shop", http=http)
    client._transport.sleep = sleep
    return client


def published(number: int = 1, queue: str = "q") -> dict[str, str]:
    """The answer to a publish."""
    return {"id": f"J{number}", "queue": queue, "outcome": "created", "state": "ready", "durability": "memory"}


def problem(status: int, code: str, applied: str = "no", **headers: str) -> httpx.Response:
    """The answer of a server that refuses a request."""
    body = {"status": status, "code": code, "detail": "why", "applied": applied, "instance": "R"}
    return httpx.Response(status, json=body, headers={name.replace("_", "-"): v for name, v in headers.items()})
