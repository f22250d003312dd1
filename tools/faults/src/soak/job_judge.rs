//! Judges every job of a soak: lost, delivered twice, delivered early. It knows only the jobs that have not ended, so its
//! memory does not grow with the length of the run.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::history::UnixMicros;

/// How many jobs of unknown fate are remembered after the judge has stopped waiting for them.
const FORGOTTEN_MAX: usize = 10_000;
/// How many defects are described; all are counted.
const DESCRIBED_MAX: usize = 20;

/// What happens to a job during its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobCourse {
    /// It is delivered and acknowledged.
    Plain,
    /// Its first attempt fails, and is repeated after a delay.
    Retried,
    /// Its producer publishes it twice with one key.
    Keyed,
    /// Its producer cancels it before it is due.
    Cancelled,
    /// It is acknowledged with a result, which is then read.
    WithResult,
}

/// Where a job is, as far as the clients know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KnownState {
    /// It may exist: its publish, cancel or ack has no answer yet, or will never have one.
    Unsure,
    /// It exists and waits.
    Waiting,
    /// A client holds it, at least until then. If that client loses its lease, another one gets the job.
    Held(UnixMicros),
}

#[derive(Debug, Clone, Copy)]
struct KnownJob {
    course: JobCourse,
    /// It must not be delivered before.
    due: UnixMicros,
    delay: Duration,
    has_failed: bool,
    state: KnownState,
}

/// A delivery, as the judge sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JudgedDelivery {
    pub(crate) course: JobCourse,
    /// Its delay, of the first delivery since its publish; `None` for later ones, and for jobs without a delay.
    pub(crate) delay: Option<Duration>,
    /// Whether an earlier attempt has failed.
    pub(crate) has_failed: bool,
}

/// Numbers of jobs and of their defects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SoakCounts {
    /// Jobs whose publish was confirmed.
    pub published: u64,
    /// Jobs that were acknowledged or cancelled.
    pub ended: u64,
    /// Deliveries, repeated ones included.
    pub deliveries: u64,
    /// Jobs without a clear answer that never came: they may have never existed, or have ended.
    pub unknown: u64,
    /// Confirmed jobs that were not delivered in time.
    pub lost: u64,
    /// Deliveries of jobs that had ended, or that another client held.
    pub doubled: u64,
    /// Deliveries before the due time.
    pub early: u64,
    /// Deliveries of jobs that this run has not published, and results that are those of other jobs.
    pub foreign: u64,
}

/// The judge.
#[derive(Debug)]
pub(crate) struct JobJudge {
    next: u64,
    jobs: HashMap<u64, KnownJob>,
    forgotten: VecDeque<u64>,
    counts: SoakCounts,
    described: Vec<String>,
    patience: Duration,
}

impl JobJudge {
    /// `patience` is how long after its due time a job may stay undelivered.
    pub(crate) fn new(patience: Duration) -> Self {
        Self {
            next: 0,
            jobs: HashMap::new(),
            forgotten: VecDeque::new(),
            counts: SoakCounts::default(),
            described: Vec::new(),
            patience,
        }
    }

    pub(crate) fn counts(&self) -> SoakCounts {
        self.counts
    }

    /// The first defects, in words.
    pub(crate) fn described(&self) -> &[String] {
        &self.described
    }

    /// Number of jobs that have not ended.
    pub(crate) fn pending(&self) -> usize {
        self.jobs.len()
    }

    /// Numbers a job that is about to be published.
    pub(crate) fn begin(&mut self, course: JobCourse, delay: Duration, now: UnixMicros) -> u64 {
        let number = self.next;
        self.next += 1;
        let job = KnownJob {
            course,
            due: now + micros(delay),
            delay,
            has_failed: false,
            state: KnownState::Unsure,
        };
        self.jobs.insert(number, job);
        number
    }

    /// The publish was confirmed.
    pub(crate) fn published(&mut self, number: u64) {
        self.counts.published += 1;
        // A consumer may have been faster than the answer.
        if let Some(job) = self.jobs.get_mut(&number)
            && job.state == KnownState::Unsure
        {
            job.state = KnownState::Waiting;
        }
    }

    /// The publish was refused, or not sent.
    pub(crate) fn refused(&mut self, number: u64) {
        self.jobs.remove(&number);
    }

    /// A request that may have ended the job was sent, and has no answer.
    pub(crate) fn unsure(&mut self, number: u64) {
        if let Some(job) = self.jobs.get_mut(&number) {
            job.state = KnownState::Unsure;
        }
    }

    /// The job was acknowledged or cancelled.
    pub(crate) fn ended(&mut self, number: u64) {
        if self.jobs.remove(&number).is_some() {
            self.counts.ended += 1;
        }
    }

    /// An attempt fails; the job is not due again before `due`. Call it before the request is sent: another client may
    /// have the job before the answer arrives.
    pub(crate) fn failed(&mut self, number: u64, due: UnixMicros) {
        if let Some(job) = self.jobs.get_mut(&number) {
            job.due = due;
            job.delay = Duration::ZERO;
            job.has_failed = true;
            job.state = KnownState::Waiting;
        }
    }

    /// A client received the job under a lease that began after `reserved`. `None` if the job is not known: it has ended.
    pub(crate) fn delivered(
        &mut self,
        number: u64,
        reserved: UnixMicros,
        received: UnixMicros,
        lease: Duration,
    ) -> Option<JudgedDelivery> {
        self.counts.deliveries += 1;
        let Some(job) = self.jobs.get_mut(&number) else {
            self.delivered_unknown(number);
            return None;
        };
        let (due, state) = (job.due, job.state);
        job.state = KnownState::Held(due.max(reserved) + micros(lease));
        let judged = JudgedDelivery {
            course: job.course,
            delay: Some(std::mem::take(&mut job.delay)).filter(|delay| !delay.is_zero()),
            has_failed: job.has_failed,
        };
        if received < due {
            self.counts.early += 1;
            self.describe(format!("job {number} was {} µs early", due - received));
        }
        if let KnownState::Held(until) = state
            && received < until
        {
            self.counts.doubled += 1;
            self.describe(format!("job {number} was delivered while it was held"));
        }
        Some(judged)
    }

    /// A delivery without one of our numbers, or with the result of another job.
    pub(crate) fn foreign(&mut self, what: &str) {
        self.counts.foreign += 1;
        self.describe(what.to_owned());
    }

    fn delivered_unknown(&mut self, number: u64) {
        if self.forgotten.contains(&number) {
            return;
        }
        if number < self.next {
            self.counts.doubled += 1;
            self.describe(format!("job {number} was delivered after it had ended"));
        } else {
            self.foreign(&format!("job {number} was delivered, but never published"));
        }
    }

    /// Stops waiting for jobs that should have come by now. Those that are known to exist are lost.
    pub(crate) fn expire(&mut self, now: UnixMicros) {
        let patience = micros(self.patience);
        let expected = |job: &KnownJob| match job.state {
            KnownState::Held(until) => until.max(job.due),
            KnownState::Unsure | KnownState::Waiting => job.due,
        };
        let mut overdue = Vec::new();
        self.jobs.retain(|number, job| {
            let is_over = now > expected(job) + patience;
            if is_over {
                overdue.push((*number, *job));
            }
            !is_over
        });
        for (number, job) in overdue {
            if job.state == KnownState::Unsure {
                self.counts.unknown += 1;
            } else {
                self.counts.lost += 1;
                let late_s = (now - job.due) / 1_000_000;
                self.describe(format!("job {number} is lost: it was due {late_s} s ago"));
            }
            if self.forgotten.len() == FORGOTTEN_MAX {
                self.forgotten.pop_front();
            }
            self.forgotten.push_back(number);
        }
    }

    fn describe(&mut self, what: String) {
        if self.described.len() < DESCRIBED_MAX {
            self.described.push(what);
        }
    }
}

/// A duration in µs.
pub(crate) fn micros(time: Duration) -> UnixMicros {
    UnixMicros::try_from(time.as_micros()).unwrap_or(UnixMicros::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000;
    const PATIENCE: Duration = Duration::from_secs(10);
    const LEASE: Duration = Duration::from_secs(4);

    fn judge() -> JobJudge {
        JobJudge::new(PATIENCE)
    }

    fn publish(judge: &mut JobJudge, delay_s: u64) -> u64 {
        let number = judge.begin(JobCourse::Plain, Duration::from_secs(delay_s), 0);
        judge.published(number);
        number
    }

    #[test]
    fn a_job_that_runs_as_it_should_is_no_defect_and_is_forgotten() {
        let mut judge = judge();
        let number = publish(&mut judge, 2);
        let first = judge.delivered(number, 0, 2 * S, LEASE).unwrap();
        assert_eq!(first.delay, Some(Duration::from_secs(2)));
        judge.failed(number, 3 * S);
        let second = judge.delivered(number, 0, 3 * S, LEASE).unwrap();
        assert_eq!((second.delay, second.has_failed), (None, true));
        judge.ended(number);
        judge.expire(1000 * S);
        assert_eq!(judge.pending(), 0);
        let expected = SoakCounts {
            published: 1,
            ended: 1,
            deliveries: 2,
            ..SoakCounts::default()
        };
        assert_eq!(judge.counts(), expected);
    }

    #[test]
    fn a_job_that_never_comes_is_lost_only_if_it_existed() {
        let mut judge = judge();
        let lost = publish(&mut judge, 2);
        let unanswered = judge.begin(JobCourse::Plain, Duration::ZERO, 0);
        let refused = judge.begin(JobCourse::Plain, Duration::ZERO, 0);
        judge.refused(refused);
        judge.expire(12 * S);
        assert_eq!(judge.counts().lost, 0);
        judge.expire(12 * S + 1);
        assert_eq!((judge.counts().lost, judge.counts().unknown), (1, 1));
        assert!(judge.described()[0].starts_with(&format!("job {lost} is lost")));
        // It comes after all: a job whose publish had no answer may.
        assert_eq!(judge.delivered(unanswered, 0, 13 * S, LEASE), None);
        assert_eq!(judge.counts().doubled, 0);
    }

    #[test]
    fn a_second_delivery_is_a_defect_unless_the_lease_may_have_expired() {
        let mut judge = judge();
        let number = publish(&mut judge, 0);
        judge.delivered(number, S, S, LEASE);
        judge.delivered(number, 5 * S, 5 * S, LEASE);
        assert_eq!(judge.counts().doubled, 0);
        judge.delivered(number, 6 * S, 6 * S, LEASE);
        assert_eq!(judge.counts().doubled, 1);
        judge.ended(number);
        assert_eq!(judge.delivered(number, 7 * S, 7 * S, LEASE), None);
        assert_eq!(judge.counts().doubled, 2);
        judge.delivered(77, 7 * S, 7 * S, LEASE);
        assert_eq!(judge.counts().foreign, 1);
    }

    #[test]
    fn an_ack_without_an_answer_allows_both_ends() {
        let mut judge = judge();
        let number = publish(&mut judge, 0);
        judge.delivered(number, S, S, LEASE);
        judge.unsure(number);
        assert!(judge.delivered(number, 2 * S, 2 * S, LEASE).is_some());
        judge.unsure(number);
        judge.expire(100 * S);
        assert_eq!((judge.counts().lost, judge.counts().doubled), (0, 0));
    }

    #[test]
    fn early_deliveries_are_counted_for_delays_and_for_retries() {
        let mut judge = judge();
        let number = publish(&mut judge, 2);
        judge.delivered(number, 0, 2 * S - 1, LEASE);
        judge.failed(number, 5 * S);
        judge.delivered(number, 0, 4 * S, LEASE);
        assert_eq!(judge.counts().early, 2);
        assert_eq!(judge.described()[0], format!("job {number} was 1 µs early"));
    }

    #[test]
    fn a_job_whose_lease_was_lost_must_come_again() {
        let mut judge = judge();
        let number = publish(&mut judge, 0);
        judge.delivered(number, S, S, LEASE);
        judge.expire(15 * S);
        assert_eq!(judge.counts().lost, 0);
        judge.expire(15 * S + 1);
        assert_eq!(judge.counts().lost, 1);
    }

    #[test]
    fn what_the_judge_keeps_does_not_grow_with_the_run() {
        let mut judge = judge();
        for second in 0..50_000 {
            let number = judge.begin(JobCourse::Plain, Duration::ZERO, second * S);
            match number % 3 {
                0 => judge.published(number),
                1 => judge.refused(number),
                _ => {}
            }
            judge.expire(second * S);
        }
        assert!(judge.pending() < 20, "{}", judge.pending());
        assert_eq!(judge.forgotten.len(), FORGOTTEN_MAX);
        assert_eq!(judge.described().len(), DESCRIBED_MAX);
        assert!(judge.counts().lost > 16_000);
    }
}
