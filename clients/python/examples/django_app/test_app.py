"""The project of Django, with the fake as its server."""

from __future__ import annotations

import os
import signal
import threading
import time
from datetime import timedelta

import pytest

pytest.importorskip("django")

from django.test import Client as Browser

from examples.django_app import app
from tidegate.testing import FakeServer


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    fake = FakeServer()
    monkeypatch.setattr(app, "client", fake.client)
    return fake


def test_the_view_publishes_and_the_handler_runs(fake: FakeServer) -> None:
    response = Browser().post("/orders/17")
    assert response.status_code == 201
    [record] = fake.assert_published("close-unpaid", {"order": 17}, key="order-17", delay=timedelta(minutes=30))
    assert response.json() == {"order": 17, "job": record.id}
    fake.clock.advance(timedelta(minutes=30))
    [(_, end)] = fake.run_due(app.worker)
    assert end.kind == "ack"


def test_the_command_runs_the_worker_until_sigterm(fake: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.worker, "_client", fake.async_client())
    fake.client().publish("close-unpaid", {"order": 18})

    def stop() -> None:
        deadline = time.monotonic() + 10
        while fake.jobs() and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop).start()
    app.main(["manage.py", "work"])
    assert fake.jobs() == []
