//! A server that answers as a scenario says, and records the requests.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// An answer of the server.
#[derive(Debug, Clone)]
pub(crate) struct ScriptedAnswer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
    /// Whether it answers a publish: with one job, or with as many as the request has.
    is_of_publish: bool,
    /// How long it takes.
    delay: Duration,
}

impl ScriptedAnswer {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self {
            status,
            headers: vec![("content-type", "application/json".to_owned())],
            body: body.to_string(),
            is_of_publish: false,
            delay: Duration::ZERO,
        }
    }

    /// A problem document; `applied` is left out if it is empty.
    pub(crate) fn problem(status: u16, code: &str, applied: &str) -> Self {
        let mut problem = json!({
            "type": format!("urn:tidegate:problem:{code}"), "title": code, "status": status, "code": code,
            "detail": "as the scenario says", "instance": "01M83TRGX7026000001X148JA1",
        });
        if !applied.is_empty() {
            problem["applied"] = applied.into();
        }
        Self {
            status,
            headers: vec![("content-type", "application/problem+json".to_owned())],
            body: problem.to_string(),
            is_of_publish: false,
            delay: Duration::ZERO,
        }
    }

    /// An answer that is no problem document.
    pub(crate) fn html(status: u16) -> Self {
        Self {
            headers: vec![("content-type", "text/html".to_owned())],
            body: "<html><body>no upstream</body></html>".to_owned(),
            ..Self::problem(status, "", "")
        }
    }

    /// The same problem with its field.
    pub(crate) fn with_field(mut self, field: &str) -> Self {
        let mut problem: Value = serde_json::from_str(&self.body).unwrap();
        problem["field"] = field.into();
        self.body = problem.to_string();
        self
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// The answer to a publish of new jobs.
    pub(crate) fn published() -> Self {
        let answer = Self::json(201, &published_job());
        Self {
            is_of_publish: true,
            ..answer
        }
    }

    pub(crate) const fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// The same for a request with several jobs.
    fn for_request(self, request: &RecordedRequest) -> Self {
        if !self.is_of_publish || !request.path.contains("/jobs/batch") {
            return self;
        }
        let results = vec![published_job(); request.jobs()];
        Self {
            delay: self.delay,
            ..Self::json(200, &json!({ "results": results }))
        }
    }
}

fn published_job() -> Value {
    json!({
        "id": "01M83TRGX7026000001X148JA1", "queue": "q", "outcome": "created", "state": "ready",
        "run_at": "2026-11-23T09:10:59.751Z", "durability": "memory",
    })
}

/// A request that arrived.
#[derive(Debug, Clone)]
pub(crate) struct RecordedRequest {
    pub(crate) at: Instant,
    pub(crate) path: String,
    pub(crate) headers: hyper::HeaderMap,
    pub(crate) body: Bytes,
}

impl RecordedRequest {
    /// How many jobs it publishes.
    pub(crate) fn jobs(&self) -> usize {
        if !self.path.contains("/jobs/batch") {
            return 1;
        }
        let body: Value = serde_json::from_slice(&self.body).unwrap();
        body["jobs"].as_array().map_or(0, Vec::len)
    }

    /// A header as text.
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }
}

#[derive(Debug, Default)]
struct Script {
    answers: VecDeque<ScriptedAnswer>,
    requests: Vec<RecordedRequest>,
}

/// A server on this machine. Each request takes the next answer; the last one repeats.
#[derive(Debug)]
pub(crate) struct AnsweringServer {
    address: SocketAddr,
    script: Arc<Mutex<Script>>,
    task: JoinHandle<()>,
}

impl AnsweringServer {
    pub(crate) async fn start(answers: impl IntoIterator<Item = ScriptedAnswer>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let script = Arc::new(Mutex::new(Script {
            answers: answers.into_iter().collect(),
            requests: Vec::new(),
        }));
        Self {
            address: listener.local_addr().unwrap(),
            task: tokio::spawn(serve(listener, Arc::clone(&script))),
            script,
        }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests until now.
    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        let script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        script.requests.clone()
    }

    /// The times between the requests.
    pub(crate) fn pauses(&self) -> Vec<Duration> {
        let requests = self.requests();
        requests
            .windows(2)
            .map(|pair| pair[1].at - pair[0].at)
            .collect()
    }
}

impl Drop for AnsweringServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, script: Arc<Mutex<Script>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let script = Arc::clone(&script);
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(request, Arc::clone(&script)));
            let serving = hyper::server::conn::http1::Builder::new();
            drop(
                serving
                    .serve_connection(TokioIo::new(stream), service)
                    .await,
            );
        });
    }
}

/// Records the request, and takes its answer.
fn next_answer(script: &Mutex<Script>, request: &RecordedRequest) -> ScriptedAnswer {
    let mut script = script.lock().unwrap_or_else(PoisonError::into_inner);
    script.requests.push(request.clone());
    let next = match script.answers.len() {
        0 | 1 => script.answers.front().cloned(),
        _ => script.answers.pop_front(),
    };
    next.expect("a scenario has answers").for_request(request)
}

async fn answer(
    request: Request<Incoming>,
    script: Arc<Mutex<Script>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let at = Instant::now();
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes());
    let recorded = RecordedRequest {
        at,
        path: head.uri.to_string(),
        headers: head.headers,
        body: body.unwrap_or_default(),
    };
    let next = next_answer(&script, &recorded);
    tokio::time::sleep(next.delay).await;
    let mut response = Response::builder().status(next.status);
    for (name, value) in next.headers {
        response = response.header(name, value);
    }
    Ok(response.body(Full::new(next.body.into())).unwrap())
}
