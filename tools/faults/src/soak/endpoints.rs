//! A client of all APIs: it uses them alternately, and the others while one restarts.

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use tidegate_testkit::{Answer, RawHttp};

use super::deployment::{NAMESPACE, SoakCredentials};
use super::state::SoakState;
use crate::history::{ClientRequest, Operation, RequestOutcome, Span, Wire, now};
use crate::wire::{HttpRequest, UNREADABLE, http_request, outcome};

/// Longest wait for an answer, in addition to the wait that a request asks for.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Pause after all APIs have refused a connection, and after a failure.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// One connection to each API.
#[derive(Debug)]
pub(super) struct SoakEndpoints<'a> {
    connections: Vec<(SocketAddr, Option<RawHttp>)>,
    next: usize,
    pub(super) state: &'a SoakState,
}

impl<'a> SoakEndpoints<'a> {
    /// `number` selects the API for the first request.
    pub(super) fn new(state: &'a SoakState, number: usize) -> Self {
        let connections = state.addresses.iter().map(|address| (*address, None));
        Self {
            connections: connections.collect(),
            next: number,
            state,
        }
    }

    /// Sends a request to the next API. Waits up to `wait` longer than usual for the answer. Counts errors.
    pub(super) async fn send(
        &mut self,
        wire: Wire,
        request: &ClientRequest,
        wait: Duration,
    ) -> Operation {
        let http = http_request(wire, request, wait);
        let http = http.sent_to(wire, NAMESPACE, credential(&self.state.credentials, wire));
        let from = now();
        let answer = self.exchange(&encoded(&http), wait).await;
        let tally = &self.state.tally;
        let outcome = match answer {
            Ok(answer) => {
                tally.answered(answer.status);
                outcome(wire, request, &answer)
            }
            Err(unsent) => unsent,
        };
        match &outcome {
            RequestOutcome::NotSent => tally.not_sent(),
            RequestOutcome::Unknown(_) => tally.unanswered(),
            RequestOutcome::Refused(status) if *status < 500 => {
                tally.unexpected(&format!("{}: status {status}", request.verb()));
            }
            RequestOutcome::Failed(UNREADABLE) => {
                tally.unexpected(&format!("{}: unreadable", request.verb()));
            }
            _ => {}
        }
        if outcome.is_unknown() || outcome.is_refused() {
            tokio::time::sleep(PAUSE).await;
        }
        Operation {
            wire,
            token: 0,
            is_without_proxy: true,
            span: Span { from, to: now() },
            request: request.clone(),
            outcome,
        }
    }

    async fn exchange(&mut self, request: &[u8], wait: Duration) -> Result<Answer, RequestOutcome> {
        let Some(mut connection) = self.connect().await else {
            return Err(RequestOutcome::NotSent);
        };
        let exchange = async {
            match connection.send(request).await {
                true => connection.answer().await,
                false => None,
            }
        };
        let answer = tokio::time::timeout(ANSWER_LIMIT + wait, exchange).await;
        let Ok(Some(answer)) = answer else {
            return Err(RequestOutcome::Unknown("no answer".to_owned()));
        };
        if answer.header("connection") != Some("close") {
            let last = self.next % self.connections.len();
            self.connections[last].1 = Some(connection);
        }
        Ok(answer)
    }

    /// Chooses the next API that takes connections.
    async fn connect(&mut self) -> Option<RawHttp> {
        for _ in 0..self.connections.len() {
            self.next = self.next.wrapping_add(1);
            let at = self.next % self.connections.len();
            let (address, kept) = &mut self.connections[at];
            if let Some(kept) = kept.take().filter(RawHttp::is_open) {
                return Some(kept);
            }
            if let Ok(opened) = RawHttp::try_connect(*address).await {
                return Some(opened);
            }
        }
        None
    }
}

/// Whether a request that must be carried out is to be sent again.
pub(super) const fn is_open(outcome: &RequestOutcome) -> bool {
    match outcome {
        RequestOutcome::Failed(status) => *status != UNREADABLE,
        RequestOutcome::Refused(status) => *status >= 500,
        RequestOutcome::NotSent | RequestOutcome::Unknown(_) => true,
        _ => false,
    }
}

fn credential(credentials: &SoakCredentials, wire: Wire) -> &str {
    match wire {
        Wire::Lmstfy => &credentials.token,
        Wire::Native => &credentials.api_key,
    }
}

fn encoded(http: &HttpRequest) -> Vec<u8> {
    let (method, path, length) = (http.method, &http.path, http.body.len());
    let mut head =
        format!("{method} {path} HTTP/1.1\r\nHost: soak\r\nContent-Length: {length}\r\n");
    for (name, value) in &http.headers {
        // Writing to a string cannot fail.
        let _ = write!(head, "{name}: {value}\r\n");
    }
    [head.as_bytes(), b"\r\n", &http.body].concat()
}
