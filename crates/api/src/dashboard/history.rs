//! Figures of the last minutes, for charts. They are noted when a page is made, so only while a page is open, and are
//! kept in this process.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::QueueKey;
use tidegate_engine::{JobTraffic, QueueFigures};
use tokio::time::Instant;

/// How far back charts go.
pub(super) const SPAN: Duration = Duration::from_secs(300);
/// The least time between two samples of a series: several people may look at the same page.
const INTERVAL_MIN: Duration = Duration::from_millis(900);
/// Maximum number of series: a pool or a queue that was looked at within [`SPAN`].
const SERIES_MAX: usize = 200;

/// The subject of a series.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Subject {
    pub(super) pool: String,
    /// `None` = all of the pool.
    pub(super) queue: Option<QueueKey>,
}

/// The figures of a moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figures {
    pub(super) sizes: QueueFigures,
    /// For how long the earliest timer is overdue, in ms.
    pub(super) overdue_ms: u64,
    pub(super) traffic: JobTraffic,
}

/// Figures with their time.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChartSample {
    pub(super) at: Instant,
    pub(super) figures: Figures,
}

/// The samples of all series.
#[derive(Debug, Default)]
pub(super) struct ChartHistory(Mutex<HashMap<Subject, VecDeque<ChartSample>>>);

impl ChartHistory {
    /// Adds figures, and returns the samples of the last minutes, the oldest first.
    pub(super) fn note(&self, subject: Subject, figures: Figures) -> Vec<ChartSample> {
        self.note_at(subject, figures, Instant::now())
    }

    fn note_at(&self, subject: Subject, figures: Figures, now: Instant) -> Vec<ChartSample> {
        let is_old = |at: Instant| now.saturating_duration_since(at) > SPAN;
        let mut all = self.0.lock();
        if !all.contains_key(&subject) {
            all.retain(|_, samples| samples.back().is_some_and(|last| !is_old(last.at)));
            if all.len() >= SERIES_MAX {
                return vec![ChartSample { at: now, figures }];
            }
        }
        let samples = all.entry(subject).or_default();
        let is_due = samples
            .back()
            .is_none_or(|last| now.saturating_duration_since(last.at) >= INTERVAL_MIN);
        if is_due {
            samples.push_back(ChartSample { at: now, figures });
        }
        while samples.front().is_some_and(|first| is_old(first.at)) {
            samples.pop_front();
        }
        samples.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(published: u64) -> Figures {
        Figures {
            sizes: QueueFigures::default(),
            overdue_ms: 0,
            traffic: JobTraffic {
                published,
                ..JobTraffic::default()
            },
        }
    }

    fn subject(pool: usize) -> Subject {
        Subject {
            pool: pool.to_string(),
            queue: None,
        }
    }

    #[test]
    fn samples_are_kept_for_some_minutes_and_not_noted_twice() {
        let (history, begin) = (ChartHistory::default(), Instant::now());
        for second in 0..400 {
            for _ in 0..3 {
                let now = begin + Duration::from_secs(second);
                let samples = history.note_at(subject(0), figures(second), now);
                let published = samples
                    .iter()
                    .map(|sample| sample.figures.traffic.published);
                let oldest = second.saturating_sub(SPAN.as_secs());
                assert_eq!(
                    published.collect::<Vec<_>>(),
                    (oldest..=second).collect::<Vec<_>>()
                );
            }
        }
    }

    #[test]
    fn the_number_of_series_is_bounded_and_old_ones_make_room() {
        let (history, begin) = (ChartHistory::default(), Instant::now());
        for pool in 0..SERIES_MAX + 10 {
            assert_eq!(history.note_at(subject(pool), figures(1), begin).len(), 1);
        }
        assert_eq!(history.0.lock().len(), SERIES_MAX);
        let later = begin + SPAN + Duration::from_secs(1);
        history.note_at(subject(SERIES_MAX + 20), figures(1), later);
        assert_eq!(history.0.lock().len(), 1);
    }
}
