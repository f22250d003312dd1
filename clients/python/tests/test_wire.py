"""How requests are written: paths, options, headers and bodies."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import httpx
import pytest

from tidegate import Client, Content, InvalidRequestError, NewJob
from tidegate._calls.jobs import job_path
from tidegate._publish.new_job import prepare

from .conftest import published, sync_client


class Recorder:
    """Answers all requests in the same way, and keeps the last one."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = published() if answer is None else answer
        self.request = httpx.Request("GET", "http://none")

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.request = request
        return httpx.Response(200, json=self.answer)

    @property
    def target(self) -> str:
        return self.request.url.raw_path.decode()

    @property
    def body(self) -> Any:
        return json.loads(self.request.content)


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("order-17", "/queues/q/jobs/key:order-17"),
        ("a b%c", "/queues/q/jobs/key:a%20b%25c"),
        ("Zürich?#&", "/queues/q/jobs/key:Z%C3%BCrich%3F%23%26"),
        ("..", "/queues/q/jobs/key:.."),
        ("a/b", "/queues/q/jobs/-?key=a%2Fb"),
    ],
)
def test_a_key_is_percent_encoded(key: str, path: str) -> None:
    assert job_path("q", None, key) == path
    recorder = Recorder({"id": "J", "outcome": "cancelled"})
    sync_client(recorder).jobs.cancel("q", key=key, running="ask")
    separator = "&" if "?" in path else "?"
    assert recorder.target == f"/v1/shop{path}{separator}running=ask"


def test_a_name_is_percent_encoded() -> None:
    recorder = Recorder()
    sync_client(recorder).publish("a/b ?", 1)
    assert recorder.target == "/v1/shop/queues/a%2Fb%20%3F/jobs"


def test_a_job_has_an_id_or_a_key() -> None:
    assert job_path("q", "J1", None, "/result") == "/queues/q/jobs/J1/result"
    assert job_path("q", None, "a/b", "/result") == "/queues/q/jobs/-/result?key=a%2Fb"
    for id, key in ((None, None), ("J1", "k"), ("", None), (None, "")):
        with pytest.raises(InvalidRequestError):
            job_path("q", id, key)


def test_options_are_in_the_query_and_attributes_in_headers() -> None:
    recorder = Recorder()
    sync_client(recorder).publish(
        "q",
        {"n": 9007199254740993},
        key="a/b &c",
        if_exists="replace",
        delay=timedelta(microseconds=1500),
        retry={"delays": [timedelta(minutes=2), timedelta(hours=1)]},
        priority=4,
        attributes={"tenant": "blü\u00a0👩\u200d🔧"},
        group=None,
    )
    _, _, query = recorder.target.partition("?")
    assert sorted(query.split("&")) == [
        "delay=2ms",
        "if_exists=replace",
        "key=a%2Fb%20%26c",
        "priority=4",
        "retry=%7B%22delays%22%3A%5B%22120000ms%22%2C%223600000ms%22%5D%7D",
    ]
    assert recorder.request.content == b'{"n":9007199254740993}'
    headers = dict(recorder.request.headers.raw)
    assert headers[b"job-attr-tenant"] == "blü\u00a0👩\u200d🔧".encode()
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"authorization"] == b"Bearer tg_A_B"
    assert headers[b"user-agent"].startswith(b"tidegate-python/")
    # A repetition of a publish with a key finds the job of the first request.
    assert b"idempotency-key" not in headers


def test_instants_are_ms_rounded_up() -> None:
    recorder = Recorder()
    at = datetime(2027, 1, 1, 10, tzinfo=timezone(timedelta(hours=1))) + timedelta(microseconds=1)
    sync_client(recorder).publish("q", 1, run_at=at)
    assert recorder.target.endswith("?run_at=1798794000001")


@pytest.mark.parametrize(
    "options",
    [
        {"delay": 5},
        {"delay": timedelta(seconds=-1)},
        {"run_at": datetime(2027, 1, 1)},
        {"run_at": 1_800_000_000_000},
        {"key": ""},
        {"attributes": {"Tenant": "blue"}},
        {"attributes": {"tenant": " blue"}},
        {"attributes": {"tenant": "a\nb"}},
        {"attributes": {"tenant": "\ud800"}},
        {"idempotency_key": "a\r\nb"},
        {"payload": float("nan")},
        {"payload": {1, 2}},
        {"payload": "\ud800"},
        {"payload": {}, "content_type": "text/plain"},
    ],
)
def test_what_is_not_valid_is_not_sent(options: dict[str, Any]) -> None:
    recorder = Recorder()
    payload = options.pop("payload", 1)
    with pytest.raises(InvalidRequestError) as raised:
        sync_client(recorder).publish("q", payload, **options)
    assert raised.value.status is None
    assert raised.value.applied == "no"
    assert recorder.request.url.host == "none"


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(TypeError, match="dely"):
        sync_client(Recorder()).publish("q", 1, dely=timedelta(0))  # type: ignore[call-arg]


def test_a_publish_is_made_safe_to_repeat() -> None:
    assert prepare(NewJob(1)).idempotency_key
    assert prepare(NewJob(1, key="k")).idempotency_key is None
    assert prepare(NewJob(1, key="k")).is_safe
    # A repetition would be refused because of the job of the first request.
    assert prepare(NewJob(1, key="k", if_exists="reject")).idempotency_key
    assert not prepare(NewJob(1, idempotent=False)).is_safe
    assert prepare(NewJob(1, key="k", idempotent=True)).idempotency_key
    assert prepare(NewJob(1, idempotency_key="mine")).idempotency_key == "mine"


@dataclass
class Order:
    number: int


@pytest.mark.parametrize(
    ("payload", "content_type", "body", "sent_type"),
    [
        (None, None, b"null", "application/json"),
        ("text", None, b'"text"', "application/json"),
        ("text", "text/plain", b"text", "text/plain"),
        (b"", None, b"", "application/octet-stream"),
        (b"\x00\xff", "image/png", b"\x00\xff", "image/png"),
        ({"a": "ü"}, "application/vnd.api+json", '{"a":"ü"}'.encode(), "application/vnd.api+json"),
        (Order(17), None, b'{"number":17}', "application/json"),
    ],
)
def test_payloads(payload: Any, content_type: str | None, body: bytes, sent_type: str) -> None:
    recorder = Recorder()
    sync_client(recorder).publish("q", payload, content_type=content_type)
    assert recorder.request.content == body
    assert recorder.request.headers["content-type"] == sent_type


def test_a_model_of_pydantic_is_a_payload() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Order", at=datetime)
    recorder = Recorder()
    sync_client(recorder).publish("q", model(at=datetime(2027, 1, 1, tzinfo=timezone.utc)))
    assert recorder.request.content == b'{"at":"2027-01-01T00:00:00Z"}'


def test_a_batch_has_the_options_of_each_job() -> None:
    refused = {"problem": {"status": 409, "code": "key_taken"}}
    recorder = Recorder({"results": [published(1), refused, published(2)]})
    results = sync_client(recorder).publish_batch(
        "q",
        [
            NewJob({"n": 9007199254740993}, delay=timedelta(minutes=5), attributes={"a": "b"}, key="k"),
            NewJob(b"\x00\xff", content_type="image/png", idempotent=False),
            2,
        ],
        atomic=True,
    )
    assert recorder.target == "/v1/shop/queues/q/jobs/batch"
    body = recorder.body
    assert body["atomic"] is True
    assert body["jobs"][0] == {
        "delay": "300000ms",
        "key": "k",
        "attributes": {"a": "b"},
        "payload": {"n": 9007199254740993},
    }
    assert body["jobs"][1] == {
        "content_type": "image/png",
        "payload_base64": base64.b64encode(b"\x00\xff").decode(),
    }
    assert body["jobs"][2].keys() == {"idempotency_key", "payload"}
    assert [type(result).__name__ for result in results] == ["PublishedJob", "ConflictError", "PublishedJob"]


def test_an_empty_batch_is_not_sent() -> None:
    recorder = Recorder()
    assert sync_client(recorder).publish_batch("q", []) == []
    assert recorder.request.url.host == "none"


def test_policies_and_schedules_have_durations_and_instants() -> None:
    policy = {"lease_ms": 1, "retry": {}, "retain_ms": 0, "paused": False, "closed": False}
    recorder = Recorder(policy)
    client = sync_client(recorder)
    client.queues.set_policy(
        "q",
        {"lease": timedelta(seconds=90), "rate": {"jobs": 1, "per": timedelta(seconds=1)}, "limit": None},
        if_match='"0"',
    )
    assert recorder.request.method == "PATCH"
    assert recorder.request.headers["if-match"] == '"0"'
    assert recorder.body == {"lease": "90000ms", "rate": {"jobs": 1, "per": "1000ms"}, "limit": None}
    recorder.answer = {"name": "s", "config": {}}
    job = {"payload": {"delay": "as it is"}, "delay": timedelta(seconds=1)}
    client.schedules.set("s", {"queue": "q", "every": timedelta(hours=1), "job": job})  # type: ignore[typeddict-item]
    assert recorder.body == {
        "queue": "q",
        "every": "3600000ms",
        "job": {"payload": {"delay": "as it is"}, "delay": "1000ms"},
    }


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_URL", "https://tidegate.example.com/")
    monkeypatch.setenv("TIDEGATE_KEY", "tg_secret")
    with pytest.raises(InvalidRequestError, match="TIDEGATE_NAMESPACE"):
        Client()
    monkeypatch.setenv("TIDEGATE_NAMESPACE", "shop")
    with Client() as client:
        assert repr(client) == "<Client https://tidegate.example.com/v1/shop>"
        assert "secret" not in repr(client._transport.settings)


@pytest.mark.parametrize("url", ["localhost:7777", "ftp://a", "http://", "http://a?b=c", "http://u:p@a"])
def test_a_url_that_names_no_server_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequestError, match="names no server"):
        Client(url, key="k", namespace="n")


def test_a_call_has_a_route_of_its_own() -> None:
    recorder = Recorder(21)
    content = sync_client(recorder).call("q", 20, wait=timedelta(seconds=30), key="k")
    assert recorder.target == "/v1/shop/queues/q/jobs/call?key=k&wait=20000ms"
    assert isinstance(content, Content)
    assert content.value == 21
