//! Ends the waits of consumers whose token was revoked, in whichever process.
//!
//! A message of the revocation could be lost, so the tokens of waiting consumers are looked up: each token once,
//! however many consumers wait with it, and none while no consumer waits.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tidegate_store::LimitHolder;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::metrics::storage_failed;

/// Between two looks. Waits end within one second of a revocation: half of it is left for the look.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Ends the waits of consumers whose token is gone from Redis, until `stop`. While Redis does not answer, waits
/// continue.
pub(crate) async fn follow_tokens(app: Arc<App>, stop: CancellationToken) {
    let looking = async {
        loop {
            sleep(LOOK_INTERVAL).await;
            look(&app).await;
        }
    };
    stop.run_until_cancelled(looking).await;
}

async fn look(app: &App) {
    let mut looks = pin!(app.tokens.revoked(app.room.tokens()));
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
