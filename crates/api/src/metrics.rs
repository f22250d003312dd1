//! The metrics of this daemon. `docs/metrics.md` lists them.
//!
//! Tokens are never labels, and a namespace is a label only after a valid token for it was presented, so that clients
//! without a token cannot create series.

use std::sync::Arc;

use prometheus::proto::MetricFamily;
use tidegate_daemon::ByteBudget;
use tidegate_daemon::metrics::{GaugeFamily, gauges_of_scrape};
use tokio::task::spawn_blocking;

use crate::app::App;

const IN_FLIGHT: GaugeFamily<usize> = (
    "tidegate_http_in_flight_bytes",
    "Size of the data in flight that counts for a limit, in bytes: headers and bodies of unanswered requests (requests.in_flight_bytes_max), and unread answers (requests.unread_bytes_max).",
    |used| Some(*used as f64),
);

/// The metrics that are read for each scrape. Takes a few seconds at most, also while Redis does not answer.
pub(crate) async fn scraped(app: &App, headers: &ByteBudget) -> Vec<MetricFamily> {
    let answers = app.exchange.unread.used() + app.exchange.unread_by_operators.used();
    let in_flight = [
        (["header"], &headers.used()),
        (["body"], &app.job_body.budget.used()),
        (["answer"], &answers),
    ];
    let in_flight = gauges_of_scrape(&IN_FLIGHT, ["what"], in_flight.into_iter());
    let mut families = tidegate_engine::scraped(&app.engine).await;
    let exchange = Arc::clone(&app.exchange);
    // There may be tens of thousands of series. It does not panic.
    let of_requests = spawn_blocking(move || exchange.metrics.families()).await;
    families.extend(of_requests.unwrap_or_default());
    families.push(in_flight);
    families
}
