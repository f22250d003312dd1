//! Record of published and delivered jobs: checks that no job is lost, duplicated or early.

use crate::body::JobLabel;
use crate::clock;

/// Lease time of all consumes, in seconds. Longer than any run, so a second delivery is always a defect.
pub(crate) const TTR_SECONDS: u32 = 3600;
const SHOWN: usize = 5;

#[derive(Debug, Clone, Copy)]
pub(crate) struct DeliveredJob {
    pub(crate) label: JobLabel,
    /// By the server's clock, in ms since 1970.
    due_ms: u64,
    /// By the local clock, in µs since 1970.
    pub(crate) received_us: u64,
}

impl DeliveredJob {
    /// A job that is due its delay after `created_ms`, the creation time in its id, which is truncated to ms.
    pub(crate) fn new(label: JobLabel, created_ms: u64, received_us: u64) -> Self {
        Self {
            label,
            due_ms: created_ms + u64::from(label.delay) * 1000,
            received_us,
        }
    }

    /// Due time by the server's clock, in µs since 1970. The exact time is up to 1 ms later.
    pub(crate) const fn due_us(&self) -> u64 {
        self.due_ms * 1000
    }

    /// Time from due to received, in µs; 0 if the job was early.
    pub(crate) fn lateness_us(&self) -> u64 {
        self.received_us.saturating_sub(self.due_us())
    }
}

/// The jobs of one run.
#[derive(Debug)]
pub(crate) struct JobTracker {
    run: u32,
    numbered: u64,
    published: u64,
    /// Number of deliveries, by job number.
    deliveries: Vec<u8>,
    delivered: u64,
    duplicates: u64,
    foreign: u64,
    early: u64,
    earliest_us: u64,
    /// Jobs that must stay delayed until the run ends.
    pending: u64,
    defects: Vec<String>,
}

impl JobTracker {
    pub(crate) fn new() -> Self {
        Self {
            run: rand::random(),
            numbered: 0,
            published: 0,
            deliveries: Vec::new(),
            delivered: 0,
            duplicates: 0,
            foreign: 0,
            early: 0,
            earliest_us: 0,
            pending: 0,
            defects: Vec::new(),
        }
    }

    /// Creates the label of the next job.
    pub(crate) fn next_label(&mut self, delay: u32) -> JobLabel {
        let number = self.numbered;
        self.numbered += 1;
        self.deliveries.push(0);
        JobLabel {
            run: self.run,
            number,
            delay,
        }
    }

    /// Records that the server confirmed the publish of `jobs` jobs.
    pub(crate) fn record_published(&mut self, jobs: u64) {
        self.published += jobs;
    }

    /// Records that the server confirmed the publish of `jobs` jobs that are not due before the run
    /// ends.
    pub(crate) fn record_pending(&mut self, jobs: u64) {
        self.published += jobs;
        self.pending += jobs;
    }

    pub(crate) fn record_delivered(&mut self, job: &DeliveredJob) {
        let index = usize::try_from(job.label.number).unwrap_or(usize::MAX);
        let Some(count) = self
            .deliveries
            .get_mut(index)
            .filter(|_| job.label.run == self.run)
        else {
            self.foreign += 1;
            return;
        };
        *count = count.saturating_add(1);
        if *count == 1 {
            self.delivered += 1;
        } else {
            self.duplicates += 1;
        }
        let early_us = job.due_us().saturating_sub(job.received_us);
        if early_us > 0 {
            self.early += 1;
            self.earliest_us = self.earliest_us.max(early_us);
        }
    }

    /// Records a delivery of a job that this run did not publish.
    pub(crate) fn record_foreign(&mut self) {
        self.foreign += 1;
    }

    /// Records a defect that was found by other means.
    pub(crate) fn record_defect(&mut self, what: String) {
        self.defects.push(what);
    }

    /// Number of jobs published in this run.
    pub(crate) fn published_count(&self) -> u64 {
        self.published
    }

    /// Number of distinct jobs delivered.
    pub(crate) fn delivered_count(&self) -> u64 {
        self.delivered
    }

    /// Number of jobs that are due within the run and not delivered yet.
    pub(crate) fn outstanding(&self) -> u64 {
        self.published.saturating_sub(self.pending + self.delivered)
    }

    /// Number of jobs delivered before they were due.
    pub(crate) fn early_count(&self) -> u64 {
        self.early
    }

    /// Problems of this run. Empty if every job was delivered exactly once and not early.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut say = |count: u64, what: String| {
            if count > 0 {
                problems.push(format!("{count} {what}"));
            }
        };
        say(
            self.outstanding(),
            format!("jobs lost{}", self.lost_numbers()),
        );
        say(
            self.duplicates,
            "deliveries too many: jobs were delivered again during their lease".to_owned(),
        );
        let worst_ms = self.earliest_us as f64 / 1000.0;
        say(
            self.early,
            format!(
                "jobs early, by up to {worst_ms:.1} ms (clocks: {})",
                clock::SAME
            ),
        );
        say(
            self.foreign,
            "deliveries of jobs that this run has not published".to_owned(),
        );
        let unasked = self.delivered.saturating_sub(self.published - self.pending);
        say(
            unasked,
            "jobs delivered that were not due, or whose publish was not answered".to_owned(),
        );
        problems.extend(self.defects.iter().cloned());
        problems
    }

    fn lost_numbers(&self) -> String {
        if self.pending > 0 {
            return String::new();
        }
        let lost = self
            .deliveries
            .iter()
            .enumerate()
            .filter(|(_, count)| **count == 0);
        let shown: Vec<String> = lost
            .take(SHOWN)
            .map(|(number, _)| number.to_string())
            .collect();
        format!(" (first numbers: {})", shown.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(label: JobLabel, created_ms: u64, received_us: u64) -> DeliveredJob {
        DeliveredJob::new(label, created_ms, received_us)
    }

    #[test]
    fn a_good_run_has_no_problems() {
        let mut tracker = JobTracker::new();
        let label = tracker.next_label(2);
        let pending = tracker.next_label(1000);
        tracker.record_published(1);
        tracker.record_pending(1);
        assert_ne!(label.number, pending.number);
        assert_eq!(tracker.outstanding(), 1);
        tracker.record_delivered(&job(label, 5000, 7_000_400));
        assert_eq!(tracker.problems(), Vec::<String>::new());
        assert_eq!(job(label, 5000, 7_000_400).lateness_us(), 400);
    }

    #[test]
    fn each_defect_is_reported() {
        let mut tracker = JobTracker::new();
        let labels: Vec<JobLabel> = (0..3).map(|_| tracker.next_label(1)).collect();
        tracker.record_published(3);
        tracker.record_delivered(&job(labels[0], 0, 999_000));
        tracker.record_delivered(&job(labels[0], 0, 1_000_000));
        let stranger = JobLabel {
            run: labels[0].run.wrapping_add(1),
            ..labels[1]
        };
        tracker.record_delivered(&job(stranger, 0, 1_000_000));
        let problems = tracker.problems().join("\n");
        for said in [
            "2 jobs lost (first numbers: 1, 2)",
            "1 deliveries too many",
            "1 jobs early, by up to 1.0 ms",
            "1 deliveries of jobs that this run has not published",
        ] {
            assert!(problems.contains(said), "{said}: {problems}");
        }
    }

    #[test]
    fn delivery_of_a_pending_job_is_a_defect() {
        let mut tracker = JobTracker::new();
        let label = tracker.next_label(1);
        tracker.record_pending(1);
        tracker.record_delivered(&job(label, 0, 2_000_000));
        assert!(tracker.problems()[0].starts_with("1 jobs delivered that were not due"));
    }
}
