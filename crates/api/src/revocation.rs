//! Ends the waits of consumers whose token was revoked, in whichever process.
//!
//! A message of the revocation could be lost, so the tokens of waiting consumers are looked up: each token once,
//! however many consumers wait with it, and none while no consumer waits. On a cluster each server has rounds of its own, so
//! that one that does not answer delays no look-up on the others.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tidegate_store::LimitHolder;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::metrics::storage_failed;

/// Between the beginnings of two rounds of look-ups on a server. Waits end within one second of a revocation: half of it is
/// left for the round.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Ends the waits of consumers whose token is gone from Redis, until `stop`. While a server does not answer, the waits with
/// its tokens continue.
pub(crate) async fn follow_tokens(app: Arc<App>, stop: CancellationToken) {
    stop.run_until_cancelled(look_by_server(&app)).await;
}

/// Begins a round on each server whose last round has ended, at each tick.
async fn look_by_server(app: &App) {
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
                for (server, tokens) in app.tokens.by_server(app.room.tokens()) {
                    if busy.insert(server.clone()) {
                        rounds.push(async {
                            look(app, tokens).await;
                            server
                        });
                    }
                }
            }
        }
    }
}

/// One round: ends the waits with those of these tokens that are gone.
async fn look(app: &App, tokens: Vec<Arc<LimitHolder>>) {
    let mut looks = pin!(app.tokens.revoked(tokens));
    while let Some(revoked) = looks.next().await {
        match revoked {
            Ok(tokens) => tokens.iter().for_each(|token| end_waits(app, token)),
            Err(error) => storage_failed(&error),
        }
    }
}

/// Ends the waits in this process with a token that was revoked.
pub(crate) fn end_waits(app: &App, token: &LimitHolder) {
    if app.skip_token_checks {
        return;
    }
    let consumers = app.room.revoke(token);
    if consumers > 0 {
        let (pool, namespace, _) = token.parts();
        tracing::info!(%pool, %namespace, consumers, "token revoked: waits with it are ended");
    }
}
