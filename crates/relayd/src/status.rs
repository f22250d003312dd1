//! `GET /relays` on the admin port.

use std::sync::Arc;

use axum::{Json, Router, routing::get};
use serde::Serialize;
use tidegate::api::relay::{LastRelayError, RelayHealth};
use tidegate::api::values::{ErrorText, Timestamp};
use tokio::time::Instant;

use crate::circuit_breaker::BreakerPermit;
use crate::relay::RelayState;
use crate::relay_set::RelaySet;

/// State and counts of a relay since the start of the process.
#[derive(Debug, Serialize)]
struct RelayView {
    name: String,
    source: String,
    sink: String,
    state: RelayHealth,
    since: Option<Timestamp>,
    /// `closed`; `open` while the sink is unavailable; `half_open` when one job is tried.
    breaker: &'static str,
    held: i64,
    confirmed: u64,
    rejected: u64,
    dead: u64,
    unavailable: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<LastRelayError>,
}

/// A relay of the API that does not run.
#[derive(Debug, Serialize)]
struct RefusedView {
    name: String,
    reason: ErrorText,
    since: Timestamp,
}

#[derive(Debug, Serialize)]
struct RelayList {
    items: Vec<RelayView>,
    refused: Vec<RefusedView>,
}

fn view(state: &RelayState) -> RelayView {
    let metrics = &state.metrics;
    let status = state.status();
    RelayView {
        name: state.name.clone(),
        source: state.source.clone(),
        sink: state.sink.clone(),
        breaker: match state.breaker.permit(Instant::now()) {
            BreakerPermit::Flow => "closed",
            BreakerPermit::Probe => "half_open",
            BreakerPermit::Wait(_) => "open",
        },
        held: metrics.held.get(),
        confirmed: metrics.confirmed.get(),
        rejected: metrics.rejected.get(),
        dead: metrics.dead.get(),
        unavailable: metrics.unavailable.get(),
        state: status.state,
        since: status.since,
        last_error: status.last_error,
    }
}

/// The route that shows these relays.
pub(crate) fn status_router(relays: Arc<RelaySet>) -> Router {
    let show = async move || {
        let items = relays.states().iter().map(|state| view(state)).collect();
        let refused = relays.refused().into_iter();
        let refused = refused.map(|(name, error)| RefusedView {
            name,
            reason: error.text,
            since: error.at,
        });
        Json(RelayList {
            items,
            refused: refused.collect(),
        })
    };
    Router::new().route("/relays", get(show))
}
