//! The metrics of this daemon: their names in one place.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::http::{Method, StatusCode};
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, histogram};
use tidegate_store::StoreError;

const REQUESTS: &str = "tidegate_http_requests_total";
const LATENCY: &str = "tidegate_http_latency_seconds";
const STORAGE_FAILURES: &str = "tidegate_storage_failures_total";
const PUBLISHED: &str = "tidegate_jobs_published_total";
const DELIVERED: &str = "tidegate_jobs_delivered_total";
const ACKED: &str = "tidegate_jobs_acked_total";
const RELEASED: &str = "tidegate_jobs_released_total";
const LIMITED: &str = "tidegate_limited_requests_total";
/// Consumers that wait for a job.
pub(crate) const WAITING: &str = "tidegate_waiting_seats";
/// Calls that were made for waiting consumers.
pub(crate) const ROUNDS: &str = "tidegate_reserve_rounds_total";

/// From a fast answer to a long poll.
const LATENCY_BOUNDS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 120.0, 600.0,
];

/// The histograms and their buckets.
pub(crate) const HISTOGRAMS: [tidegate_service::metrics::Buckets<'static>; 1] =
    [(LATENCY, &LATENCY_BOUNDS)];

/// Tells what the metrics mean.
pub(crate) fn describe() {
    describe_counter!(REQUESTS, "Answered requests, by verb, method and status");
    describe_histogram!(
        LATENCY,
        "From the end of a request's header to its answer; a long poll includes its wait"
    );
    describe_counter!(STORAGE_FAILURES, "Calls to storage that failed");
    describe_counter!(PUBLISHED, "Jobs that were stored");
    describe_counter!(DELIVERED, "Jobs that were written to their consumers");
    describe_counter!(ACKED, "Jobs that were deleted by request");
    describe_counter!(
        RELEASED,
        "Jobs taken back because their consumers had gone, without costing a try"
    );
    describe_counter!(
        LIMITED,
        "Requests that were refused because of the rate limit of their token, by action"
    );
    describe_gauge!(WAITING, "Consumers that wait for a job");
    describe_counter!(ROUNDS, "Calls to storage on behalf of waiting consumers");
}

/// A request that was answered.
pub(crate) fn answered(verb: &'static str, method: &Method, status: StatusCode, took: Duration) {
    counter!(REQUESTS, "verb" => verb, "method" => method_label(method), "status" => status.as_str().to_owned())
        .increment(1);
    histogram!(LATENCY, "verb" => verb).record(took);
}

/// Methods are the client's choice, labels are not.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

/// Jobs that were stored.
pub(crate) fn published(pool: &str, jobs: usize) {
    counter!(PUBLISHED, "pool" => pool.to_owned()).increment(jobs as u64);
}

/// Jobs that were written to a consumer.
pub(crate) fn delivered(pool: &str, jobs: usize) {
    counter!(DELIVERED, "pool" => pool.to_owned()).increment(jobs as u64);
}

/// A job that was deleted by request.
pub(crate) fn acked(pool: &str) {
    counter!(ACKED, "pool" => pool.to_owned()).increment(1);
}

/// A job that was taken back.
pub(crate) fn released(pool: &str) {
    counter!(RELEASED, "pool" => pool.to_owned()).increment(1);
}

/// A request that was refused because its token has a limit.
pub(crate) fn limited(action: &'static str) {
    counter!(LIMITED, "action" => action).increment(1);
}

/// A call to storage that failed. They come by the thousand when Redis is away, so there is at most
/// one warning a second; the others are for those who debug.
pub(crate) fn storage_failed(error: &StoreError) {
    static BEGAN_AT: LazyLock<Instant> = LazyLock::new(Instant::now);
    static LAST_WARNING_S: AtomicU64 = AtomicU64::new(0);
    counter!(STORAGE_FAILURES).increment(1);
    let now_s = BEGAN_AT.elapsed().as_secs() + 1;
    if LAST_WARNING_S.swap(now_s, Ordering::Relaxed) == now_s {
        tracing::debug!(%error, "storage failed");
    } else {
        tracing::warn!(%error, "storage failed");
    }
}
