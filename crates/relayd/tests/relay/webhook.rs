//! Webhooks: what their answers do to jobs, signatures, and addresses that are not allowed.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use rand::RngExt;
use serde_json::{Value, json};
use sha2::Sha256;
use tidegate_testkit::{eventually, free_port, random};

use crate::endpoint::{ANY_PORT, AfterAnswer, ReceivedRequest, WebhookEndpoint};
use crate::fixture::{LIMIT, QUEUE, RelayDaemon, RelayedQueue, SERVER, SHORT};

fn sink(address: SocketAddr, more: &str) -> String {
    let secret = STANDARD.encode("a secret");
    format!(
        "[relay.r.sink]\nkind = \"webhook\"\nurl = \"http://{address}/hook\"\nsecret = \"whsec_{secret}\"\n\
         allow_http = true\ntime_limit = \"1s\"\n{more}\n"
    )
}

const LOOPBACK: &str = "allow_networks = [\"127.0.0.0/8\"]";

fn time(text: &Value) -> i64 {
    let at: jiff::Timestamp = text.as_str().unwrap().parse().unwrap();
    at.as_second()
}

fn check_signature(request: &ReceivedRequest) {
    let signed = format!(
        "{}.{}.{}",
        request.headers["webhook-id"], request.headers["webhook-timestamp"], request.body
    );
    let mut mac = Hmac::<Sha256>::new_from_slice(b"a secret").unwrap();
    mac.update(signed.as_bytes());
    let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    assert_eq!(request.headers["webhook-signature"], expected);
}

/// Each job was sent once, signed, and no redirect was followed.
fn check_requests(received: &[ReceivedRequest], ids: &[String]) {
    assert_eq!(received.len(), ids.len());
    for request in received {
        assert_eq!(request.path, "/hook");
        assert_eq!(request.headers["content-type"], "text/plain");
        assert!(ids.contains(&request.headers["webhook-id"]));
        check_signature(request);
    }
}

/// What a webhook answers, by the payload of the job; and then the state of the job, its least delay in seconds, and
/// part of its error. A job that is done is not there.
const ANSWERS: [(&str, &str, i64, &str); 16] = [
    ("fine", "gone", 0, ""),
    (
        "500",
        "delayed",
        3000,
        "status 500 Internal Server Error: sorry",
    ),
    (
        "429",
        "delayed",
        1000,
        "status 429 Too Many Requests: sorry",
    ),
    (
        "503",
        "delayed",
        1000,
        "status 503 Service Unavailable: sorry",
    ),
    ("410", "dead", 0, "status 410 Gone: sorry"),
    ("413", "dead", 0, "status 413 Payload Too Large: sorry"),
    (
        "431",
        "dead",
        0,
        "status 431 Request Header Fields Too Large: sorry",
    ),
    (
        "date",
        "delayed",
        24 * 3600,
        "status 503 Service Unavailable: sorry",
    ),
    ("redirect", "delayed", 3000, "status 302 Found: sorry"),
    ("silent", "delayed", 3000, "no answer within 1s"),
    ("half", "delayed", 3000, "the answer broke off"),
    ("garbage", "delayed", 3000, "no answer"),
    ("long 200", "gone", 0, ""),
    ("long half", "delayed", 3000, "the answer broke off"),
    (
        "long 500",
        "delayed",
        3000,
        "status 500 Internal Server Error: sorry",
    ),
    (
        "now",
        "delayed",
        3000,
        "status 429 Too Many Requests: sorry",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_of_a_webhook_decides_about_its_job() {
    let stack = SERVER.acquire().await;
    let queue = RelayedQueue::new(&stack, "webhook-answers").await;
    let policy = json!({"retry": {"every": "50m"}});
    queue
        .native
        .call("PATCH", &format!("/queues/{QUEUE}/policy"), &policy)
        .await
        .expect(200);
    let endpoint = WebhookEndpoint::start(ANY_PORT).await;
    let mut ids = Vec::new();
    for (payload, ..) in ANSWERS {
        let published = queue
            .native
            .publish(QUEUE, "", payload)
            .await
            .expect(201)
            .json();
        ids.push(published["id"].as_str().unwrap().to_owned());
    }
    let relay = RelayDaemon::start(&[
        SHORT,
        &queue.as_end("source", QUEUE),
        &sink(endpoint.address, LOOPBACK),
    ])
    .await;
    for ((payload, state, delay_min, error), id) in ANSWERS.into_iter().zip(&ids) {
        let job = eventually("the job is settled", LIMIT, async || {
            let job = queue.job(id).await;
            let actual = job["state"].as_str().unwrap_or("gone");
            if actual == state { Ok(job) } else { Err(job) }
        })
        .await;
        if state == "gone" {
            continue;
        }
        assert_eq!(job["failures"], 1, "{job}");
        let history = job["history"].to_string();
        assert!(history.contains(error), "{payload}: {job}");
        if state == "delayed" {
            let delay = time(&job["run_at"]) - time(&job["created_at"]);
            assert!(
                (delay_min..delay_min + 600).contains(&delay),
                "{payload}: {delay} s"
            );
        }
    }
    check_requests(&endpoint.received(), &ids);
    let status = relay.status().await;
    let counts = ["confirmed", "rejected", "dead", "unavailable", "held"]
        .map(|name| status[name].as_u64().unwrap());
    assert_eq!(counts, [2, 11, 3, 0, 0], "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_leads_to_a_private_address_is_not_dialled() {
    let stack = SERVER.acquire().await;
    let queue = RelayedQueue::new(&stack, "webhook-guard").await;
    let endpoint = WebhookEndpoint::start(ANY_PORT).await;
    let ids = queue.publish(0..3).await;
    let sink = sink(endpoint.address, "").replace("127.0.0.1", "localhost");
    let relay = RelayDaemon::start(&[SHORT, &queue.as_end("source", QUEUE), &sink]).await;
    relay
        .status_has("the breaker is open", |status| status["breaker"] == "open")
        .await;
    let status = relay.status().await;
    assert!(
        status["last_error"]["text"]
            .as_str()
            .unwrap()
            .contains("is not public"),
        "{status}"
    );
    assert!(endpoint.received().is_empty());
    for id in ids {
        assert_eq!(queue.job(&id).await["failures"], 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_wait_for_an_endpoint_that_is_down_and_no_failure_is_counted() {
    let stack = SERVER.acquire().await;
    let queue = RelayedQueue::new(&stack, "webhook-down").await;
    let address = SocketAddr::new(ANY_PORT.ip(), free_port().unwrap());
    let relay = RelayDaemon::start(&[
        SHORT,
        &queue.as_end("source", QUEUE),
        &sink(address, LOOPBACK),
    ])
    .await;
    let ids = queue.publish(0..50).await;
    relay
        .status_has("the breaker is open", |status| status["breaker"] == "open")
        .await;
    for id in &ids {
        assert_eq!(queue.job(id).await["failures"], 0);
    }
    let endpoint = WebhookEndpoint::start(address).await;
    queue.drained().await;
    let received = endpoint
        .received()
        .into_iter()
        .map(|request| request.headers["webhook-id"].clone());
    assert_eq!(received.collect::<std::collections::BTreeSet<_>>(), ids);
    relay
        .status_has("the breaker is closed", |status| {
            status["breaker"] == "closed"
        })
        .await;
}

/// A server that closes a connection after its answer, or when the next request arrives, has not received that request:
/// no attempt is counted, and no job is rejected.
#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_closes_idle_connections_costs_no_attempt() {
    let stack = SERVER.acquire().await;
    let queue = RelayedQueue::new(&stack, "webhook-idle").await;
    let policy = json!({"retry": {"every": "50m"}});
    queue
        .native
        .call("PATCH", &format!("/queues/{QUEUE}/policy"), &policy)
        .await
        .expect(200);
    let draws = Mutex::new(random("closes of connections"));
    let draw = move || match draws.lock().unwrap().random_range(0..3) {
        0 => AfterAnswer::Keep,
        1 => AfterAnswer::Close,
        _ => AfterAnswer::CloseAtNextRequest,
    };
    let endpoint = WebhookEndpoint::start_with(ANY_PORT, Arc::new(draw)).await;
    let relay = RelayDaemon::start(&[
        SHORT,
        &queue.as_end("source", QUEUE),
        &sink(endpoint.address, LOOPBACK),
    ])
    .await;
    // The endpoint takes some smaller numbers for the statuses of its answers.
    for begin in (1000..1600).step_by(100) {
        queue.publish(begin..begin + 100).await;
        relay
            .status_has("the jobs are confirmed or rejected", |status| {
                let of = |name: &str| status[name].as_u64().unwrap_or_default();
                of("confirmed") + of("rejected") >= begin as u64 + 100 - 1000
            })
            .await;
    }
    let status = relay.status().await;
    let counts =
        ["confirmed", "rejected", "dead", "unavailable"].map(|name| status[name].as_u64().unwrap());
    assert_eq!(counts, [600, 0, 0, 0], "{status}");
    assert_eq!(endpoint.received().len(), 600);
}

/// The kernel accepts connections, and no process ever answers a handshake.
#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_whose_handshake_never_ends_is_unavailable() {
    let stack = SERVER.acquire().await;
    let queue = RelayedQueue::new(&stack, "webhook-handshake").await;
    let silent = std::net::TcpListener::bind(ANY_PORT).unwrap();
    let sink = sink(silent.local_addr().unwrap(), LOOPBACK).replace("http://", "https://");
    let relay = RelayDaemon::start(&[SHORT, &queue.as_end("source", QUEUE), &sink]).await;
    let ids = queue.publish(0..3).await;
    relay
        .status_has("the breaker is open", |status| status["breaker"] == "open")
        .await;
    let status = relay.status().await;
    let error = status["last_error"]["text"].as_str().unwrap();
    assert!(error.contains("no connection within 1s"), "{status}");
    for id in ids {
        assert_eq!(queue.job(&id).await["failures"], 0);
    }
}
