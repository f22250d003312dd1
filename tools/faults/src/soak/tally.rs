//! Counts of requests and latenesses, for the samples.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::history::UnixMicros;

/// The largest lateness that is recorded as it is, in µs.
const LATENESS_MAX: u64 = 3_600_000_000;
/// Significant digits of latenesses.
const DIGITS: u8 = 3;

/// Counts of the requests of all clients.
#[derive(Debug, Default)]
pub(super) struct RequestTally {
    answered: AtomicU64,
    not_sent: AtomicU64,
    unanswered: AtomicU64,
    /// Answers that should not come, by their description.
    unexpected: Mutex<BTreeMap<String, u64>>,
    unexpected_count: AtomicU64,
}

impl RequestTally {
    pub(super) fn answered(&self, status: u16) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        if status >= 500 {
            self.unexpected(&format!("status {status}"));
        }
    }

    pub(super) fn not_sent(&self) {
        self.not_sent.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn unanswered(&self) {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an answer that should not come. There are few different descriptions.
    pub(super) fn unexpected(&self, what: &str) {
        const KINDS_MAX: usize = 100;
        self.unexpected_count.fetch_add(1, Ordering::Relaxed);
        let mut all = self
            .unexpected
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(what) {
            *count += 1;
        } else if all.len() < KINDS_MAX {
            all.insert(what.to_owned(), 1);
        }
    }

    /// Number of answers.
    pub(super) fn answered_count(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Number of requests that were not sent, not answered, or not answered as expected.
    pub(super) fn error_count(&self) -> u64 {
        [&self.not_sent, &self.unanswered, &self.unexpected_count]
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum()
    }

    /// All errors in words, with their numbers.
    pub(super) fn errors(&self) -> Vec<String> {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let own = [
            (count(&self.not_sent), "not sent: no API took a connection"),
            (count(&self.unanswered), "without an answer"),
        ];
        let own = own.into_iter().filter(|(count, _)| *count > 0);
        let own = own.map(|(count, what)| format!("{count} {what}"));
        let all = self
            .unexpected
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        own.chain(all.iter().map(|(what, count)| format!("{count} {what}")))
            .collect()
    }
}

/// Percentiles of latenesses of an interval, in µs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LatenessOf {
    pub(super) p50: u64,
    pub(super) p99: u64,
    pub(super) count: u64,
}

/// Latenesses since the last sample, and in each quarter.
#[derive(Debug)]
pub(super) struct LatenessTally {
    recent: Histogram<u64>,
    quarters: [Histogram<u64>; 4],
    begin: UnixMicros,
    length: Duration,
}

impl LatenessTally {
    /// A tally for a run that begins now.
    pub(super) fn new(begin: UnixMicros, length: Duration) -> Self {
        Self {
            recent: histogram(),
            quarters: std::array::from_fn(|_| histogram()),
            begin,
            length,
        }
    }

    /// Records that a job was received `late` µs after it was due.
    pub(super) fn record(&mut self, received: UnixMicros, late: u64) {
        self.recent.saturating_record(late);
        let since = received.saturating_sub(self.begin);
        let quarter = u64::try_from(self.length.as_micros() / 4).unwrap_or(u64::MAX);
        let at = usize::try_from(since / quarter.max(1)).unwrap_or(usize::MAX);
        // Jobs that arrive after the end belong to no quarter.
        if let Some(quarter) = self.quarters.get_mut(at) {
            quarter.saturating_record(late);
        }
    }

    /// Returns the percentiles since the last call.
    pub(super) fn take_recent(&mut self) -> LatenessOf {
        let of = percentiles(&self.recent);
        self.recent.reset();
        of
    }

    /// The percentiles of each quarter.
    pub(super) fn quarters(&self) -> [LatenessOf; 4] {
        self.quarters.each_ref().map(percentiles)
    }
}

fn percentiles(all: &Histogram<u64>) -> LatenessOf {
    LatenessOf {
        p50: all.value_at_quantile(0.5),
        p99: all.value_at_quantile(0.99),
        count: all.len(),
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENESS_MAX, DIGITS).expect("the bounds are valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latenesses_are_in_their_quarter_and_in_one_sample() {
        let mut tally = LatenessTally::new(1000, Duration::from_secs(4));
        for (received, late) in [
            (1000, 10),
            (2_001_000, 30),
            (3_999_999, 40),
            (9_000_000, 90),
        ] {
            tally.record(received, late);
        }
        let counts = tally.quarters().map(|of| of.count);
        assert_eq!(counts, [1, 0, 1, 1]);
        assert_eq!(tally.quarters()[3].p99, 40);
        assert_eq!(tally.take_recent().count, 4);
        assert_eq!(tally.take_recent(), LatenessOf::default());
    }

    #[test]
    fn errors_are_counted_by_what_they_are() {
        let tally = RequestTally::default();
        tally.answered(200);
        tally.answered(500);
        tally.unanswered();
        tally.unexpected("ack: gone");
        tally.unexpected("ack: gone");
        assert_eq!(tally.answered_count(), 2);
        assert_eq!(tally.error_count(), 4);
        let said = tally.errors().join("; ");
        assert_eq!(said, "1 without an answer; 2 ack: gone; 1 status 500");
    }
}
