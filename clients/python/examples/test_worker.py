"""The examples, with the fake as their server."""

from __future__ import annotations

from datetime import timedelta

from examples import publisher
from examples import worker as example
from tidegate.testing import FakeServer


def test_an_order_is_closed_unless_it_is_paid() -> None:
    fake = FakeServer()
    with fake.client() as client:
        publisher.place(client, 17)
        publisher.place(client, 18)
        publisher.pay(client, 17)
    fake.clock.advance(timedelta(minutes=30))
    assert {job.key for job, end in fake.run_due(example.worker)} == {"order-18", None}
    assert fake.jobs() == []


def test_mails() -> None:
    fake = FakeServer()
    with fake.client() as client:
        for to in ("ann@example.com", "full@example.com", "nobody"):
            client.publish("mails", {"to": to, "text": "hello"}, key=to)
        fake.run_due(example.worker)
        assert client.jobs.show("mails", key="full@example.com").run_at == fake.clock.now + timedelta(seconds=30)
        assert client.jobs.show("mails", key="nobody").state == "dead"
