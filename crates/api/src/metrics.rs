//! The metrics of this daemon. `docs/metrics.md` lists them.
//!
//! Tokens are never labels, and a namespace is a label only after a valid token for it was presented, so that clients
//! without a token cannot create series.

use std::sync::LazyLock;

use prometheus::IntGaugeVec;
use prometheus::proto::MetricFamily;
use tidegate_daemon::ByteBudget;
use tidegate_daemon::metrics::gauges;

use crate::app::App;

static IN_FLIGHT: LazyLock<IntGaugeVec> = LazyLock::new(|| {
    gauges(
        "tidegate_http_in_flight_bytes",
        "Size of the data in flight that counts for a limit, in bytes: headers and bodies of unanswered requests (requests.in_flight_bytes_max), and unread answers (requests.unread_bytes_max).",
        &["what"],
    )
});

/// The metrics that are read for each scrape. Takes a few seconds at most, also while Redis does not answer.
pub(crate) async fn scraped(app: &App, headers: &ByteBudget) -> Vec<MetricFamily> {
    let answers = app.exchange.unread.used() + app.exchange.unread_by_operators.used();
    for (what, used) in [
        ("header", headers.used()),
        ("body", app.job_body.budget.used()),
        ("answer", answers),
    ] {
        let gauge = IN_FLIGHT.with_label_values(&[what]);
        gauge.set(i64::try_from(used).unwrap_or(i64::MAX));
    }
    tidegate_engine::gauges(&app.engine).await
}
