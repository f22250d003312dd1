//! Ends the waits of consumers whose token was revoked, by this or another process.
//!
//! A message about the revocation could be lost, so the tokens of waiting consumers are looked up periodically: each
//! token once, however many consumers wait with it, and none while no consumer waits. On a cluster each server has
//! separate rounds, so that a server that does not answer delays no look-up on the others.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tidegate_store::LimitHolder;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::storage_failure::record_store_error;

/// The time between the starts of two rounds of look-ups on a server. Waits must end within one second of a revocation,
/// so half a second is left for the round.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Ends the waits of consumers whose token is no longer in Redis, until `stop` is cancelled. While a server does not
/// answer, the waits with its tokens continue.
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
                for (server, tokens) in engine.tokens.by_server(engine.room.tokens()) {
                    if busy.insert(server.clone()) {
                        rounds.push(async {
                            look_up(engine, tokens).await;
                            server
                        });
                    }
                }
            }
        }
    }
}

/// One round: looks up tokens and ends the waits with those that were revoked.
async fn look_up(engine: &Engine, tokens: Vec<Arc<LimitHolder>>) {
    let mut looks = pin!(engine.tokens.revoked(tokens));
    while let Some(revoked) = looks.next().await {
        match revoked {
            Ok(tokens) => tokens.iter().for_each(|token| engine.end_waits(token)),
            Err(error) => record_store_error(&error),
        }
    }
}

impl Engine {
    /// Ends the waits in this process with a revoked token. Does nothing if tokens are not checked.
    pub fn end_waits(&self, token: &LimitHolder) {
        if self.skip_token_checks {
            return;
        }
        let consumers = self.room.revoke(token);
        if consumers > 0 {
            let (pool, namespace, _) = token.parts();
            tracing::info!(%pool, %namespace, consumers, "ended the waits of consumers whose token was revoked");
        }
    }
}
