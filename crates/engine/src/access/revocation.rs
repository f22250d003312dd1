//! Ends the waits of consumers whose token or API key was revoked, by this or another process, or has expired.
//!
//! A message about the revocation could be lost, so the credentials of waiting consumers are looked up periodically:
//! each one once, however many consumers wait with it, and none while no consumer waits. On a cluster each server has
//! separate rounds, so that a server that does not answer delays no look-up on the others.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{FuturesUnordered, select};
use tidegate_core::ApiKeyId;
use tidegate_store::LimitHolder;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::access::credential::Credential;
use crate::engine::Engine;
use crate::metrics::storage_failure::record_store_error;

/// The time between the starts of two rounds of look-ups on a server. Waits must end within one second of a revocation,
/// so half a second is left for the round.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// The credentials that are looked up on one server.
#[derive(Debug, Default)]
struct CredentialLookUps {
    tokens: Vec<Arc<LimitHolder>>,
    keys: Vec<ApiKeyId>,
}

/// Ends the waits of consumers whose credential is no longer in Redis, until `stop` is cancelled. While a server does
/// not answer, the waits with its credentials continue, until they expire.
pub(crate) async fn end_revoked_waits(engine: &Engine, stop: CancellationToken) {
    if engine.skip_token_checks {
        return;
    }
    stop.run_until_cancelled(run_rounds(engine)).await;
}

/// At each tick, starts a round on each server whose last round has ended. Never returns.
async fn run_rounds(engine: &Engine) {
    let mut ticks = interval(LOOK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut busy = HashSet::new();
    let mut rounds = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(server) = rounds.next() => {
                busy.remove(&server);
            }
            _ = ticks.tick() => {
                for credential in engine.room.expired(Instant::now()) {
                    engine.end_waits(&credential);
                }
                for (server, round) in rounds_by_server(engine) {
                    if busy.insert(server.clone()) {
                        rounds.push(async {
                            look_up(engine, round).await;
                            server
                        });
                    }
                }
            }
        }
    }
}

/// The credentials of all waiting consumers, by the address of their server; `None` = unknown.
fn rounds_by_server(engine: &Engine) -> HashMap<Option<Arc<str>>, CredentialLookUps> {
    let (mut tokens, mut keys) = (Vec::new(), Vec::new());
    for credential in engine.room.credentials() {
        match credential {
            Credential::Token(token) => tokens.push(token),
            Credential::Key(id) => keys.push(id),
            Credential::Listener(_) => {}
        }
    }
    let mut rounds: HashMap<_, CredentialLookUps> = HashMap::new();
    for (server, tokens) in engine.tokens.by_server(tokens) {
        rounds.entry(server).or_default().tokens = tokens;
    }
    if !keys.is_empty() {
        rounds.entry(engine.keys.server()).or_default().keys = keys;
    }
    rounds
}

/// One round: looks up credentials and ends the waits with revoked credentials.
async fn look_up(engine: &Engine, round: CredentialLookUps) {
    let CredentialLookUps { tokens, keys } = round;
    let tokens = engine.tokens.revoked(tokens);
    let tokens = tokens.map(|revoked| revoked.map(credentials));
    let keys = engine.keys.revoked(&keys);
    let keys = keys.map(|revoked| revoked.map(credentials));
    let mut looks = pin!(select(tokens, keys));
    while let Some(revoked) = looks.next().await {
        match revoked {
            Ok(credentials) => credentials.iter().for_each(|it| engine.end_waits(it)),
            Err(error) => record_store_error(&error),
        }
    }
}

fn credentials(revoked: Vec<impl Into<Credential>>) -> Vec<Credential> {
    revoked.into_iter().map(Into::into).collect()
}

impl Engine {
    /// Ends the waits in this process with a credential that was revoked or has expired. Does nothing if tokens are not
    /// checked.
    pub fn end_waits(&self, credential: &Credential) {
        if self.skip_token_checks {
            return;
        }
        let consumers = self.room.revoke(credential);
        if consumers == 0 {
            return;
        }
        match credential {
            Credential::Token(token) => {
                let (pool, namespace, _) = token.parts();
                tracing::info!(%pool, %namespace, consumers, "ended the waits of consumers whose token was revoked");
            }
            Credential::Key(id) => {
                tracing::info!(key = %id, consumers, "ended the waits of consumers whose API key was revoked or has expired");
            }
            Credential::Listener(_) => {}
        }
    }
}
