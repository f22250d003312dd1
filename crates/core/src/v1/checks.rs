//! Checks that several requests share.

use crate::limits::{ConfigurableLimits, DURATION_MS_MAX, LEASE_MS_MAX, LEASE_MS_MIN};
use crate::v1::problem::{InvalidRequest, ProblemCode};
use crate::v1::values::{DurationMs, Timestamp};

/// `delay` and `run_at` exclude each other, and the job must be due before the end of the time that servers can store.
pub(crate) fn check_due(
    delay: Option<DurationMs>,
    run_at: Option<Timestamp>,
) -> Result<(), InvalidRequest> {
    if delay.is_some() && run_at.is_some() {
        let detail = "delay and run_at exclude each other; send one of them";
        return Err(InvalidRequest::new(ProblemCode::DelayAndRunAt, detail).at("run_at"));
    }
    if let Err(invalid) = check_delay("delay", delay) {
        return Err(InvalidRequest {
            code: ProblemCode::RunAtOutOfRange,
            ..invalid
        });
    }
    if run_at.is_some_and(|run_at| run_at.as_ms() > DURATION_MS_MAX) {
        let detail = format!(
            "run_at must not be after {}",
            Timestamp::saturating(DURATION_MS_MAX)
        );
        return Err(InvalidRequest::new(ProblemCode::RunAtOutOfRange, detail).at("run_at"));
    }
    Ok(())
}

/// A delay ends before the end of the time that servers can store.
pub(crate) fn check_delay(field: &str, delay: Option<DurationMs>) -> Result<(), InvalidRequest> {
    if delay.is_some_and(|delay| delay.as_ms() > DURATION_MS_MAX) {
        let detail = format!("{field} must be at most {DURATION_MS_MAX} ms, which is 557 years");
        return Err(InvalidRequest::of_field(field, detail));
    }
    Ok(())
}

/// A lease is 100 ms to 24 h long.
pub(crate) fn check_lease(lease: Option<DurationMs>) -> Result<(), InvalidRequest> {
    let is_valid = |lease: DurationMs| (LEASE_MS_MIN..=LEASE_MS_MAX).contains(&lease.as_ms());
    if lease.is_none_or(is_valid) {
        return Ok(());
    }
    Err(InvalidRequest::of_field(
        "lease",
        "a lease must be from 100 ms to 24 h",
    ))
}

/// A job that must start within no time would always be dropped.
pub(crate) fn check_start_within(start_within: Option<DurationMs>) -> Result<(), InvalidRequest> {
    if start_within == Some(DurationMs::ZERO) {
        let detail =
            "start_within must be at least 1 ms; leave it out for a job that is never dropped";
        return Err(InvalidRequest::of_field("start_within", detail));
    }
    if start_within.is_some_and(|limit| limit.as_ms() > DURATION_MS_MAX) {
        let detail =
            format!("start_within must be at most {DURATION_MS_MAX} ms, which is 557 years");
        return Err(InvalidRequest::of_field("start_within", detail));
    }
    Ok(())
}

/// Checks the time to live of a job that counts deliveries.
pub(crate) fn check_ttl(ttl: Option<DurationMs>) -> Result<(), InvalidRequest> {
    if ttl.is_some_and(|ttl| !(1..=DURATION_MS_MAX).contains(&ttl.as_ms())) {
        let detail = format!(
            "ttl must be 1 to {DURATION_MS_MAX} ms, which is 557 years; without it the job does not expire"
        );
        return Err(InvalidRequest::of_field("ttl", detail));
    }
    Ok(())
}

/// The number of items of a list in a request.
pub(crate) fn check_count(field: &str, count: usize, most: usize) -> Result<(), InvalidRequest> {
    if (1..=most).contains(&count) {
        return Ok(());
    }
    let detail = format!("there must be 1 to {most} items, not {count}");
    Err(InvalidRequest::of_field(field, detail))
}

/// Checks the time for which a request may wait.
pub(crate) fn check_wait(
    wait: Option<DurationMs>,
    limits: &ConfigurableLimits,
) -> Result<(), InvalidRequest> {
    if wait.is_none_or(|wait| wait.as_ms() <= limits.wait_ms) {
        return Ok(());
    }
    let detail = format!("wait must be at most {} ms", limits.wait_ms);
    Err(InvalidRequest::of_field("wait", detail))
}
