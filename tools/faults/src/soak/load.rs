//! The mixed load: queues, and kinds of jobs.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use super::job_judge::JobCourse;
use super::times::SoakTimes;
use super::wire::SoakWire;

/// A queue of the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SoakQueue {
    pub(super) name: String,
    /// The wire that publishes.
    pub(super) from: SoakWire,
    /// The wire that consumes.
    pub(super) to: SoakWire,
}

/// A job to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DrawnJob {
    pub(super) queue: SoakQueue,
    pub(super) course: JobCourse,
    pub(super) delay: Duration,
}

/// The queue with many lanes, and their number.
pub(super) const WIDE_QUEUE: &str = "wide";
pub(super) const WIDE_LANES: u16 = 8;
/// Consumers of each queue that is in use all the time. With six all were often busy, and lateness showed their number.
pub(super) const CONSUMERS: usize = 32;
/// Queues that have a job now and then, and consumers of each.
const QUIET_QUEUES: usize = 20;
pub(super) const QUIET_CONSUMERS: usize = 2;
/// How long a failed attempt delays its job.
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// The shortest delay, and the upper bound of short ones.
const DELAY_MIN: Duration = Duration::from_secs(1);
const SHORT_DELAY_MAX: Duration = Duration::from_secs(10);

use SoakWire::{Lmstfy, Native};

/// Queues for jobs that need nothing of a certain wire.
const PLAIN: [(&str, SoakWire, SoakWire); 6] = [
    ("orders", Lmstfy, Lmstfy),
    ("mails", Lmstfy, Lmstfy),
    ("from-native", Native, Lmstfy),
    ("from-lmstfy", Lmstfy, Native),
    (WIDE_QUEUE, Native, Native),
    ("reports", Native, Native),
];
const RETRIED: &str = "webhooks";
const KEYED: &str = "documents";
const WITH_RESULT: &str = "invoices";

/// The queues that are in use all the time.
pub(super) fn busy_queues() -> Vec<SoakQueue> {
    let native = [RETRIED, KEYED, WITH_RESULT].map(|name| (name, Native, Native));
    let all = PLAIN.into_iter().chain(native);
    all.map(|(name, from, to)| SoakQueue {
        name: name.to_owned(),
        from,
        to,
    })
    .collect()
}

/// The queues whose consumers mostly wait.
pub(super) fn quiet_queues() -> Vec<SoakQueue> {
    (0..QUIET_QUEUES).map(quiet).collect()
}

fn quiet(number: usize) -> SoakQueue {
    native(&format!("quiet-{number}"))
}

fn native(name: &str) -> SoakQueue {
    SoakQueue {
        name: name.to_owned(),
        from: Native,
        to: Native,
    }
}

/// Draws a job. While the capacity is measured, jobs have no delays and are not cancelled, so that each of them ends at
/// once.
pub(super) fn draw(random: &mut StdRng, times: &SoakTimes, is_calibration: bool) -> DrawnJob {
    let (mut course, mut queue, mut delay) = (JobCourse::Plain, None, Duration::ZERO);
    let long = times.delay_max;
    match random.random_range(0..100) {
        0..45 => {}
        45..70 => delay = between(random, DELAY_MIN, SHORT_DELAY_MAX.min(long)),
        70..80 => delay = between(random, DELAY_MIN, long),
        80..86 => (course, queue) = (JobCourse::Retried, Some(native(RETRIED))),
        86..91 => {
            (course, queue) = (JobCourse::Keyed, Some(native(KEYED)));
            delay = DELAY_MIN;
        }
        91..96 => {
            course = JobCourse::Cancelled;
            delay = between(random, long / 2, long);
        }
        96..99 => (course, queue) = (JobCourse::WithResult, Some(native(WITH_RESULT))),
        _ => queue = Some(quiet(random.random_range(0..QUIET_QUEUES))),
    }
    let queue = queue.unwrap_or_else(|| {
        let (name, from, to) = PLAIN[random.random_range(0..PLAIN.len())];
        let name = name.to_owned();
        SoakQueue { name, from, to }
    });
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
        let used: BTreeSet<&str> = jobs.iter().map(|job| job.queue.name.as_str()).collect();
        let all = [busy_queues(), quiet_queues()].concat();
        let all: BTreeSet<&str> = all.iter().map(|queue| queue.name.as_str()).collect();
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
