//! A client of all APIs: it uses them alternately, and the others while one restarts.

use std::net::SocketAddr;
use std::time::Duration;

use super::connection::{SoakAnswer, SoakConnection};
use super::tally::RequestTally;

/// Longest wait for an answer, in addition to the wait that a request asks for.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Pause after all APIs have refused a connection.
const PAUSE: Duration = Duration::from_millis(50);

/// The outcome of a request.
#[derive(Debug)]
pub(super) enum ExchangeEnd {
    Answered(SoakAnswer),
    /// No API takes connections: the request was not sent.
    NotSent,
    /// It was sent, perhaps in part, and has no answer.
    Unanswered,
}

/// One connection to each API.
#[derive(Debug)]
pub(super) struct SoakEndpoints<'a> {
    connections: Vec<(SocketAddr, Option<SoakConnection>)>,
    next: usize,
    tally: &'a RequestTally,
}

impl<'a> SoakEndpoints<'a> {
    /// `number` selects the API for the first request.
    pub(super) fn new(addresses: &[SocketAddr], number: usize, tally: &'a RequestTally) -> Self {
        let connections = addresses.iter().map(|address| (*address, None));
        Self {
            connections: connections.collect(),
            next: number,
            tally,
        }
    }

    /// Sends a request to the next API. Waits up to `wait` longer than usual for the answer.
    pub(super) async fn exchange(&mut self, request: &[u8], wait: Duration) -> ExchangeEnd {
        let Some(mut connection) = self.connect().await else {
            self.tally.not_sent();
            tokio::time::sleep(PAUSE).await;
            return ExchangeEnd::NotSent;
        };
        let answer = connection.exchange(request);
        match tokio::time::timeout(ANSWER_LIMIT + wait, answer).await {
            Ok(Ok(answer)) => {
                if !answer.closes_connection() {
                    let last = self.next % self.connections.len();
                    self.connections[last].1 = Some(connection);
                }
                self.tally.answered(answer.status);
                ExchangeEnd::Answered(answer)
            }
            Ok(Err(_)) | Err(_) => {
                self.tally.unanswered();
                ExchangeEnd::Unanswered
            }
        }
    }

    /// Chooses the next API that takes connections.
    async fn connect(&mut self) -> Option<SoakConnection> {
        for _ in 0..self.connections.len() {
            self.next = self.next.wrapping_add(1);
            let at = self.next % self.connections.len();
            let (address, kept) = &mut self.connections[at];
            if let Some(kept) = kept.take().filter(SoakConnection::is_open) {
                return Some(kept);
            }
            if let Ok(opened) = SoakConnection::open(*address).await {
                return Some(opened);
            }
        }
        None
    }
}
