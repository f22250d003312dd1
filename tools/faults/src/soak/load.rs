//! The mixed load: queues, and kinds of jobs.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use super::times::SoakTimes;
use crate::history::{VersionSpec, Wire, in_micros};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobCourse {
    /// It is delivered and acknowledged.
    Plain,
    /// Its first attempt fails, and is repeated after a delay.
    Retried,
    /// Its producer publishes it twice with one key.
    Keyed,
    /// Its producer cancels it before it is due.
    Cancelled,
    /// Its result is read after it is acknowledged.
    WithResult,
}

/// A queue of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SoakQueue {
    pub(super) number: u16,
    /// The wire that publishes.
    pub(super) from: Wire,
    /// The wire that consumes.
    pub(super) to: Wire,
}

/// A job to publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DrawnJob {
    pub(super) queue: SoakQueue,
    pub(super) course: JobCourse,
    pub(super) delay: Duration,
}

impl DrawnJob {
    /// Returns it under this number.
    pub(super) fn version(&self, number: u64) -> VersionSpec {
        let is_kept = matches!(self.course, JobCourse::Keyed | JobCourse::WithResult);
        VersionSpec {
            number,
            bytes: BYTES,
            delay: in_micros(self.delay),
            tries: match self.queue.from {
                Wire::Lmstfy => TRIES,
                Wire::Native => 0,
            },
            key: (self.course == JobCourse::Keyed).then_some(number as u32),
            retain: if is_kept { in_micros(RETAIN) } else { 0 },
            ..VersionSpec::default()
        }
    }
}

/// The queue with many lanes, and their number.
pub(super) const WIDE_QUEUE: u16 = 4;
pub(super) const WIDE_LANES: u16 = 8;
/// Consumers of each queue that is in use all the time. With six all were often busy, and lateness showed their number.
pub(super) const CONSUMERS: usize = 32;
/// Consumers of each queue that has a job now and then.
pub(super) const QUIET_CONSUMERS: usize = 2;
/// How long a failed attempt delays its job.
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// How long a job with a key or a result is kept.
const RETAIN: Duration = Duration::from_secs(30);
/// Attempts on the wire of lmstfy. More than one, so that a lost answer loses no job.
const TRIES: u64 = 10;
const BYTES: usize = 100;
/// The shortest delay, and the upper bound of short ones.
const DELAY_MIN: Duration = Duration::from_secs(1);
const SHORT_DELAY_MAX: Duration = Duration::from_secs(10);

use Wire::{Lmstfy, Native};

/// The wires of the queues for jobs that need nothing of a certain one: the first numbers.
const PLAIN: [(Wire, Wire); 6] = [
    (Lmstfy, Lmstfy),
    (Lmstfy, Lmstfy),
    (Native, Lmstfy),
    (Lmstfy, Native),
    (Native, Native),
    (Native, Native),
];
const RETRIED: u16 = 6;
const KEYED: u16 = 7;
const WITH_RESULT: u16 = 8;
/// Queues that have a job now and then.
const QUIET: std::ops::Range<u16> = 9..29;
/// Number of queues.
pub(super) const QUEUES: u16 = QUIET.end;

/// The queues that are in use all the time.
pub(super) fn busy_queues() -> Vec<SoakQueue> {
    (0..QUIET.start).map(queue).collect()
}

/// The queues whose consumers mostly wait.
pub(super) fn quiet_queues() -> Vec<SoakQueue> {
    QUIET.map(queue).collect()
}

fn queue(number: u16) -> SoakQueue {
    let wires = PLAIN.get(usize::from(number)).copied();
    let (from, to) = wires.unwrap_or((Native, Native));
    SoakQueue { number, from, to }
}

/// Draws a job. While the capacity is measured, jobs have no delays and are not cancelled, so that each of them ends at
/// once.
pub(super) fn draw(random: &mut StdRng, times: &SoakTimes, is_calibration: bool) -> DrawnJob {
    let plain = random.random_range(0..PLAIN.len() as u16);
    let (mut course, mut number, mut delay) = (JobCourse::Plain, plain, Duration::ZERO);
    let long = times.delay_max;
    match random.random_range(0..100) {
        0..45 => {}
        45..70 => delay = between(random, DELAY_MIN, SHORT_DELAY_MAX.min(long)),
        70..80 => delay = between(random, DELAY_MIN, long),
        80..86 => (course, number) = (JobCourse::Retried, RETRIED),
        86..91 => {
            (course, number) = (JobCourse::Keyed, KEYED);
            delay = DELAY_MIN;
        }
        91..96 => {
            course = JobCourse::Cancelled;
            delay = between(random, long / 2, long);
        }
        96..99 => (course, number) = (JobCourse::WithResult, WITH_RESULT),
        _ => number = random.random_range(QUIET),
    }
    let queue = queue(number);
    if is_calibration {
        delay = Duration::ZERO;
        if course == JobCourse::Cancelled {
            course = JobCourse::Plain;
        }
    }
    if queue.from == Lmstfy {
        delay = Duration::from_secs(delay.as_secs());
    }
    DrawnJob {
        queue,
        course,
        delay,
    }
}

fn between(random: &mut StdRng, least: Duration, most: Duration) -> Duration {
    let ms = |time: Duration| time.as_millis() as u64;
    Duration::from_millis(random.random_range(ms(least)..=ms(most)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::SeedableRng;

    use super::*;

    #[test]
    fn every_queue_and_course_is_drawn_and_delays_are_within_bounds() {
        let times = SoakTimes::new(Duration::from_secs(3600));
        let mut random = StdRng::seed_from_u64(7);
        let jobs: Vec<DrawnJob> = (0..20_000)
            .map(|_| draw(&mut random, &times, false))
            .collect();
        let used: BTreeSet<u16> = jobs.iter().map(|job| job.queue.number).collect();
        let all = [busy_queues(), quiet_queues()].concat();
        let all: BTreeSet<u16> = all.iter().map(|queue| queue.number).collect();
        assert_eq!(used, all);
        assert!(jobs.iter().all(|job| job.delay <= times.delay_max));
        let longest = jobs.iter().map(|job| job.delay).max().unwrap();
        assert!(longest > times.delay_max * 9 / 10, "{longest:?}");
        for course in [
            JobCourse::Retried,
            JobCourse::Keyed,
            JobCourse::Cancelled,
            JobCourse::WithResult,
        ] {
            assert!(jobs.iter().any(|job| job.course == course), "{course:?}");
        }
        let seconds = |job: &&DrawnJob| job.queue.from == Lmstfy;
        let mut lmstfy = jobs.iter().filter(seconds);
        assert!(lmstfy.all(|job| job.delay.subsec_nanos() == 0));
    }

    #[test]
    fn jobs_that_measure_the_capacity_end_at_once() {
        let times = SoakTimes::new(Duration::from_secs(60));
        let mut random = StdRng::seed_from_u64(7);
        for _ in 0..5000 {
            let job = draw(&mut random, &times, true);
            assert_eq!(job.delay, Duration::ZERO);
            assert_ne!(job.course, JobCourse::Cancelled);
        }
    }
}
