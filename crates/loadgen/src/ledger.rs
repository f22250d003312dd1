//! What was published and what came back: the check that no job is lost, doubled or early.

use crate::body::Label;
use crate::clock;

/// Lease time of all consumes of a run, in seconds: longer than any run, so that a second delivery is
/// always a defect.
pub(crate) const TTR_SECONDS: u32 = 3600;
const SHOWN: usize = 5;

/// A delivered job, as far as a run cares.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivered {
    pub(crate) label: Label,
    /// From the job's id: by the server's clock, in ms since 1970, cut to whole ones.
    pub(crate) created_ms: u64,
    /// By our clock, in µs since 1970.
    pub(crate) received_us: u64,
}

impl Delivered {
    /// When the job was due, in µs since 1970, by the server's clock. The true moment is up to 1 ms later.
    pub(crate) fn due_us(&self) -> u64 {
        (self.created_ms + u64::from(self.label.delay) * 1000) * 1000
    }

    /// How long after it was due the job arrived, in µs; 0 if it was early.
    pub(crate) fn lateness_us(&self) -> u64 {
        self.received_us.saturating_sub(self.due_us())
    }
}

/// One run's jobs.
#[derive(Debug)]
pub(crate) struct Ledger {
    run: u32,
    numbered: u64,
    published: u64,
    /// By number: how often it was delivered.
    deliveries: Vec<u8>,
    delivered: u64,
    doubled: u64,
    foreign: u64,
    early: u64,
    earliest_us: u64,
    /// Numbers that must stay where they are: far from due.
    pending: u64,
    unsettled: Vec<String>,
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Self {
            run: rand::random(),
            numbered: 0,
            published: 0,
            deliveries: Vec::new(),
            delivered: 0,
            doubled: 0,
            foreign: 0,
            early: 0,
            earliest_us: 0,
            pending: 0,
            unsettled: Vec::new(),
        }
    }

    /// A label for the next job.
    pub(crate) fn label(&mut self, delay: u32) -> Label {
        let number = self.numbered;
        self.numbered += 1;
        self.deliveries.push(0);
        Label {
            run: self.run,
            number,
            delay,
        }
    }

    /// The server has answered that it took so many jobs.
    pub(crate) fn published(&mut self, jobs: u64) {
        self.published += jobs;
    }

    /// The server has answered that it took so many jobs that are not due before the run ends.
    pub(crate) fn published_pending(&mut self, jobs: u64) {
        self.published += jobs;
        self.pending += jobs;
    }

    /// A job was delivered.
    pub(crate) fn delivered(&mut self, job: &Delivered) {
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
            self.doubled += 1;
        }
        let early_us = job.due_us().saturating_sub(job.received_us);
        if early_us > 0 {
            self.early += 1;
            self.earliest_us = self.earliest_us.max(early_us);
        }
    }

    /// Something was delivered that this run has not published.
    pub(crate) fn foreign(&mut self) {
        self.foreign += 1;
    }

    /// A further defect, found by looking at the server.
    pub(crate) fn defect(&mut self, what: String) {
        self.unsettled.push(what);
    }

    /// How many jobs were published in this run.
    pub(crate) fn published_count(&self) -> u64 {
        self.published
    }

    /// How many different jobs were delivered.
    pub(crate) fn delivered_count(&self) -> u64 {
        self.delivered
    }

    /// Jobs that are due within the run and were not delivered yet.
    pub(crate) fn outstanding(&self) -> u64 {
        self.published.saturating_sub(self.pending + self.delivered)
    }

    /// How many jobs came before they were due.
    pub(crate) fn early_count(&self) -> u64 {
        self.early
    }

    /// What is wrong with this run; nothing if every job was delivered exactly once and not early.
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
            self.doubled,
            "deliveries too many: a job came again during its lease".to_owned(),
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
        problems.extend(self.unsettled.iter().cloned());
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

    fn job(label: Label, created_ms: u64, received_us: u64) -> Delivered {
        Delivered {
            label,
            created_ms,
            received_us,
        }
    }

    #[test]
    fn a_good_run_has_no_problems() {
        let mut ledger = Ledger::new();
        let label = ledger.label(2);
        let pending = ledger.label(1000);
        ledger.published(1);
        ledger.published_pending(1);
        assert_ne!(label.number, pending.number);
        assert_eq!(ledger.outstanding(), 1);
        ledger.delivered(&job(label, 5000, 7_000_400));
        assert_eq!(ledger.problems(), Vec::<String>::new());
        assert_eq!(job(label, 5000, 7_000_400).lateness_us(), 400);
    }

    #[test]
    fn each_defect_is_told() {
        let mut ledger = Ledger::new();
        let labels: Vec<Label> = (0..3).map(|_| ledger.label(1)).collect();
        ledger.published(3);
        ledger.delivered(&job(labels[0], 0, 999_000));
        ledger.delivered(&job(labels[0], 0, 1_000_000));
        let stranger = Label {
            run: labels[0].run.wrapping_add(1),
            ..labels[1]
        };
        ledger.delivered(&job(stranger, 0, 1_000_000));
        let problems = ledger.problems().join("\n");
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
    fn a_pending_job_that_comes_is_a_defect() {
        let mut ledger = Ledger::new();
        let label = ledger.label(1);
        ledger.published_pending(1);
        ledger.delivered(&job(label, 0, 2_000_000));
        assert!(ledger.problems()[0].starts_with("1 jobs delivered that were not due"));
    }
}
