"""The fake in memory."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from tidegate import ConflictError, Content, Dead, NewJob, NotFoundError, Pending, RateLimitedError, RetryIn, Worker
from tidegate.testing import FakeClock, FakeServer, Server, StartError

MINUTE = timedelta(minutes=1)


def test_a_delayed_job_runs_when_the_clock_is_moved(fake: FakeServer) -> None:
    closed: list[int] = []
    worker = Worker()
    worker.add("close-unpaid", lambda payload: closed.append(payload["order"]))
    published = fake.client().publish("close-unpaid", {"order": 17}, key="order-17", delay=30 * MINUTE)
    assert published.state == "delayed"
    assert published.run_at == fake.clock.now + 30 * MINUTE
    fake.clock.advance(30 * MINUTE - timedelta(milliseconds=1))
    assert fake.run_due(worker) == []
    fake.clock.advance(timedelta(milliseconds=1))
    [(job, end)] = fake.run_due(worker)
    assert (job.key, end.kind, closed) == ("order-17", "ack", [17])
    assert fake.jobs() == []


def test_publishes_are_asserted(fake: FakeServer) -> None:
    fake.client().publish("mails", {"to": "ann"}, key="k", delay=MINUTE, attributes={"tenant": "blue"})
    fake.client().publish_batch("mails", [NewJob(b"\x00"), {"to": "bob"}])
    [record] = fake.assert_published("mails", {"to": "ann"}, key="k", delay=MINUTE, run_at=fake.clock.now + MINUTE)
    assert record.attributes == {"tenant": "blue"}
    fake.assert_published("mails", b"\x00", key=None)
    fake.assert_published("mails", count=3)
    fake.assert_published("others", count=0)
    with pytest.raises(AssertionError, match="0 publishes to mails match"):
        fake.assert_published("mails", {"to": "eve"})


def test_keys(fake: FakeServer) -> None:
    client = fake.client()
    first = client.publish("q", 1, key="k", delay=MINUTE)
    assert client.publish("q", 2, key="k").outcome == "exists"
    with pytest.raises(ConflictError):
        client.publish("q", 2, key="k", if_exists="reject")
    replaced = client.publish("q", 3, key="k", if_exists="replace")
    assert (replaced.outcome, replaced.id) == ("replaced", first.id)
    [job] = client.reserve(["q"])
    assert job.payload == 3
    assert client.publish("q", 4, key="k", if_exists="replace").outcome == "rerun"
    assert client.ack([job])[0].outcome == "rerun"
    [again] = client.reserve(["q"])
    assert (again.payload, again.attempt, again.id) == (4, 2, first.id)
    client.fail([again], "no", dead=True)
    assert client.publish("q", 5, key="k").outcome == "revived"


def test_an_idempotency_key_finds_the_first_job(fake: FakeServer) -> None:
    client = fake.client()
    ids = {client.publish("q", 1, idempotency_key="i").id for _ in range(2)}
    assert len(ids) == 1


def test_failures_are_retried_with_growing_delays(fake: FakeServer) -> None:
    client = fake.client()
    worker = Worker()
    results: list[Exception] = [ValueError("one"), ValueError("two"), RetryIn("three", MINUTE), Dead("four")]

    @worker.handler("q")
    def handler(job: object) -> None:
        raise results.pop(0)

    client.publish("q", 1, key="k")
    delays = []
    for _ in range(3):
        assert len(fake.run_due(worker)) == 1
        run_at = client.jobs.show("q", key="k").run_at
        assert run_at is not None
        delays.append((run_at - fake.clock.now).total_seconds())
        fake.clock.set(run_at)
    assert delays == [1, 2, 60]
    fake.run_due(worker)
    details = client.jobs.show("q", key="k")
    assert (details.state, details.reason, details.failures) == ("dead", "permanent", 4)
    assert [entry["error"] for entry in details.history] == ["one", "two", "three", "four"]
    assert client.queues.respawn("q") == 1
    assert client.queues.purge("q", "ready") == 1


def test_leases_expire_with_the_clock(fake: FakeServer) -> None:
    client = fake.client()
    client.publish("q", 1)
    [job] = client.reserve(["q"], lease=MINUTE)
    fake.clock.advance(timedelta(seconds=59))
    assert client.touch([job], lease=MINUTE)[0].outcome == "extended"
    fake.clock.advance(MINUTE)
    [again] = client.reserve(["q"])
    assert (again.attempt, again.losses) == (2, 1)
    assert client.ack([job])[0].outcome == "lost"
    assert client.ack([again])[0].outcome == "done"
    assert client.ack([again])[0].outcome == "gone"


def test_cancel_change_and_promote(fake: FakeServer) -> None:
    client = fake.client()
    client.publish("q", 1, key="a/b", delay=MINUTE)
    assert client.jobs.change("q", key="a/b", delay=2 * MINUTE).run_at == fake.clock.now + 2 * MINUTE
    assert client.jobs.promote("q", key="a/b").outcome == "promoted"
    assert client.queues.show("q").ready == 1
    [job] = client.reserve(["q"])
    with pytest.raises(ConflictError):
        client.jobs.cancel("q", key="a/b")
    assert client.jobs.cancel("q", key="a/b", running="ask").outcome == "cancel_requested"
    assert client.touch([job])[0].cancel_requested
    assert client.release([job])[0].outcome == "cancelled"
    with pytest.raises(NotFoundError):
        client.jobs.cancel("q", key="a/b")


def test_calls_and_results(fake: FakeServer) -> None:
    client = fake.client()
    pending = client.call("q", 20, wait=timedelta(0), retain=MINUTE)
    assert isinstance(pending, Pending)
    worker = Worker()
    worker.add("q", lambda payload: payload + 1)
    fake.run_due(worker)
    result = client.jobs.result("q", pending.id)
    assert isinstance(result, Content)
    assert result.value == 21
    fake.clock.advance(MINUTE)
    with pytest.raises(NotFoundError):
        client.jobs.result("q", pending.id)


def test_errors_of_the_server(fake: FakeServer) -> None:
    client = fake.client()
    fake.refuse_next(429, "queue_full")
    with pytest.raises(RateLimitedError):
        client.publish("q", 1)
    assert fake.published() == []
    with pytest.raises(Exception, match="the fake does not know"):
        client.queues.policy("q")


def test_the_clock() -> None:
    clock = FakeClock(datetime(2027, 1, 1, tzinfo=timezone.utc))
    clock.advance(timedelta(days=1))
    assert clock.now == datetime(2027, 1, 2, tzinfo=timezone.utc)


def test_a_program_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StartError, match="/no/such is not a file"):
        Server("/no/such")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(StartError, match="TIDEGATE_PROGRAM"):
        Server()
