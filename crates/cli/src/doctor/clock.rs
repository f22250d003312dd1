//! The clock of the server against the clock of this machine.

use hyper::header::{DATE, HeaderMap};
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};

use super::report::DoctorReport;

/// The header `Date` has whole seconds, and the answer takes a while: smaller differences are no finding.
const TOLERATED: SignedDuration = SignedDuration::from_secs(3);

/// The clocks agree if the date is between the times before and after the request.
pub(super) fn check_clock(
    report: &mut DoctorReport,
    before: Timestamp,
    after: Timestamp,
    headers: &HeaderMap,
) {
    let date = headers.get(DATE).and_then(|value| value.to_str().ok());
    let date = date.and_then(|text| DateTimeParser::new().parse_timestamp(text).ok());
    let Some(date) = date else {
        report.skipped("clock", "the answer has no header Date");
        return;
    };
    let ahead = before.duration_since(date);
    let behind = date.duration_since(after);
    let (difference, way) = match ahead > behind {
        true => (ahead, "ahead of"),
        false => (behind, "behind"),
    };
    if difference <= TOLERATED {
        report.ok(
            "clock",
            "the clocks of this machine and of the server agree",
        );
        return;
    }
    let seconds = difference.as_secs();
    report.problem(
        "clock",
        format!("the clock of this machine is {seconds} s {way} the clock of the server"),
        "synchronise both with NTP. Delays count on the clock of Redis, but --run-at and the times of jobs are compared with this one",
    );
}
