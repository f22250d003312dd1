//! The intervals of a soak. A soak of an hour or longer has the intervals that its page names; a shorter one scales
//! them down.

use std::time::Duration;

/// Length of a period of a soak that is long enough.
const PERIOD: Duration = Duration::from_secs(600);
/// Least number of periods.
const PERIODS_MIN: u32 = 6;

/// The intervals of a soak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoakTimes {
    /// The whole measured time.
    pub length: Duration,
    /// From one restart to the next, and from one audit to the next: ten minutes, or a sixth of the length. Memory is
    /// compared with its value after the first period.
    pub period: Duration,
    /// From one sample to the next.
    pub sample: Duration,
    /// From one scrape of all metrics to the next.
    pub scrape: Duration,
    /// From one line of progress to the next.
    pub progress: Duration,
    /// How long the capacity is measured.
    pub calibration: Duration,
    /// Lease of all reserved jobs.
    pub lease: Duration,
    /// The longest delay of a job. It is half a period, so that the number of delayed jobs is steady after one.
    pub delay_max: Duration,
}

impl SoakTimes {
    /// Returns the intervals of a soak of this length.
    #[must_use]
    pub fn new(length: Duration) -> Self {
        let period = PERIOD.min(length / PERIODS_MIN);
        let part = |of: u32, least_s: u64, most_s: u64| {
            (period / of).clamp(Duration::from_secs(least_s), Duration::from_secs(most_s))
        };
        Self {
            length,
            period,
            sample: (period / 60).clamp(Duration::from_millis(500), Duration::from_secs(10)),
            scrape: part(40, 1, 15),
            progress: part(10, 5, 60),
            calibration: part(20, 3, 10),
            lease: part(10, 10, 60),
            delay_max: part(2, 2, 300),
        }
    }

    /// How long after it is due a job may stay undelivered: an answer that did not arrive may hold it for a lease.
    pub(crate) fn patience(&self) -> Duration {
        2 * self.lease + Duration::from_secs(20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_has_the_intervals_of_the_page_and_a_minute_scales_them() {
        let seconds = Duration::from_secs;
        for length in [3600, 86_400] {
            let times = SoakTimes::new(seconds(length));
            assert_eq!(times.period, seconds(600));
            assert_eq!(times.sample, seconds(10));
            assert_eq!(times.scrape, seconds(15));
            assert_eq!(times.progress, seconds(60));
            assert_eq!(times.lease, seconds(60));
            assert_eq!(times.delay_max, seconds(300));
        }
        let times = SoakTimes::new(seconds(60));
        assert_eq!(times.period, seconds(10));
        assert_eq!(times.sample, Duration::from_millis(500));
        assert_eq!(times.delay_max, seconds(5));
    }
}
