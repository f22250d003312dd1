//! The steps of the test, and how each ended.

use std::time::{Duration, Instant};

use super::cargo_call::EndedCall;

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepOutcome {
    Passed,
    Failed,
    /// Not run, for this reason.
    Skipped(&'static str),
}

impl StepOutcome {
    pub(super) const fn of(has_passed: bool) -> Self {
        match has_passed {
            true => Self::Passed,
            false => Self::Failed,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct StepReport {
    steps: Vec<(&'static str, StepOutcome, Duration)>,
}

impl StepReport {
    /// Runs a step. Returns whether it has passed.
    pub(super) fn step(&mut self, name: &'static str, work: impl FnOnce() -> StepOutcome) -> bool {
        println!("\n=== {name}");
        let begin = Instant::now();
        let outcome = work();
        self.add(name, outcome, begin.elapsed());
        outcome == StepOutcome::Passed
    }

    /// Adds a step that ran beside others; an error is the reason why it was not run.
    pub(super) fn ended(&mut self, name: &'static str, ended: &Result<EndedCall, &'static str>) {
        println!("\n=== {name}");
        match ended {
            Ok(ended) => self.add(name, StepOutcome::of(ended.print()), ended.took),
            Err(reason) => self.add(name, StepOutcome::Skipped(reason), Duration::ZERO),
        }
    }

    fn add(&mut self, name: &'static str, outcome: StepOutcome, took: Duration) {
        if let StepOutcome::Skipped(reason) = outcome {
            println!("skipped: {reason}");
        }
        self.steps.push((name, outcome, took));
    }

    pub(super) fn has_failed(&self) -> bool {
        self.steps
            .iter()
            .any(|(_, outcome, _)| *outcome == StepOutcome::Failed)
    }

    pub(super) fn print(&self) {
        println!("\n=== summary");
        for (name, outcome, time) in &self.steps {
            let seconds = time.as_secs_f64();
            match outcome {
                StepOutcome::Passed => println!("passed  {seconds:7.1} s  {name}"),
                StepOutcome::Failed => println!("FAILED  {seconds:7.1} s  {name}"),
                StepOutcome::Skipped(reason) => println!("skipped            {name} ({reason})"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_step_neither_fails_nor_passes() {
        let mut report = StepReport::default();
        assert!(report.step("one", || StepOutcome::Passed));
        assert!(!report.step("two", || StepOutcome::Skipped("no reason")));
        assert!(!report.has_failed());
        assert!(!report.step("three", || StepOutcome::Failed));
        assert!(report.has_failed());
    }
}
