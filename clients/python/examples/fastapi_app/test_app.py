"""The app of FastAPI, with the fake as its server."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import httpx
import pytest

pytest.importorskip("fastapi")

from examples.fastapi_app.app import app
from tidegate.testing import FakeServer


async def use(fake: FakeServer) -> None:
    app.state.tidegate = fake.async_client()
    transport = httpx.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://app") as http:
        assert (await http.post("/orders/17")).status_code == 201
        assert (await http.post("/orders/18")).status_code == 201
        assert (await http.post("/orders/18/payment")).status_code == 204
        fake.clock.advance(timedelta(minutes=30))
        deadline = time.monotonic() + 10
        while fake.jobs() and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert (await http.post("/orders/17/payment")).status_code == 409


def test_the_app_publishes_and_runs_the_worker() -> None:
    fake = FakeServer()
    asyncio.run(use(fake))
    fake.assert_published("close-unpaid", {"order": 17}, key="order-17", delay=timedelta(minutes=30))
    assert fake.jobs() == []
