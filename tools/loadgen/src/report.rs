//! Results of a run.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::cpu::CpuUsage;

/// Latencies in µs, with three significant digits.
pub(crate) type Latencies = Histogram<u64>;

/// Largest recorded latency, in µs: one hour.
const LATENCY_MAX: u64 = 3_600_000_000;

/// Creates an empty distribution of latencies. Longer ones than an hour count as an hour.
pub(crate) fn latencies() -> Latencies {
    // These bounds are valid.
    Histogram::new_with_bounds(1, LATENCY_MAX, 3).unwrap_or_else(|_| unreachable!())
}

/// Results of one scenario on one server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ScenarioReport {
    /// The scenario's name.
    pub scenario: String,
    /// The URL of the server.
    pub server: String,
    /// How load was generated, such as `closed loop, 64 connections`.
    pub load: String,
    /// The parameters of the run.
    pub parameters: BTreeMap<String, String>,
    /// The measured values.
    pub figures: Vec<Figure>,
    /// Problems, such as lost jobs. The figures are valid only if this is empty.
    pub problems: Vec<String>,
    /// Notes about the run.
    pub remarks: Vec<String>,
    /// The load average of the machine when the run began.
    pub load_average: f64,
}

/// One measured value.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// The value.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// The goal, if there is one.
    pub goal: Option<Goal>,
}

/// The goal of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// Not more than this.
    AtMost(f64),
    /// Not less than this.
    AtLeast(f64),
}

impl Goal {
    /// Whether a value reaches the goal.
    #[must_use]
    pub fn is_reached(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }
}

impl ScenarioReport {
    /// Whether the figures are valid.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.problems.is_empty()
    }

    /// The value of the figure with this name.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<f64> {
        let found = self.figures.iter().find(|figure| figure.name == name);
        found.map(|figure| figure.value)
    }

    pub(crate) fn figure(&mut self, name: impl Into<String>, value: f64, unit: &str) {
        self.push(name.into(), value, unit, None);
    }

    pub(crate) fn figure_with_goal(
        &mut self,
        name: impl Into<String>,
        value: f64,
        unit: &str,
        goal: Goal,
    ) {
        self.push(name.into(), value, unit, Some(goal));
    }

    /// Adds a number of jobs per second, with a goal if there is one.
    pub(crate) fn rate(&mut self, name: &str, value: f64, goal: Option<Goal>) {
        self.push(name.to_owned(), value, "jobs/s", goal);
    }

    fn push(&mut self, name: String, value: f64, unit: &str, goal: Option<Goal>) {
        self.figures.push(Figure {
            name,
            value,
            unit: unit.to_owned(),
            goal,
        });
    }

    pub(crate) fn parameter(&mut self, name: &str, value: impl ToString) {
        self.parameters.insert(name.to_owned(), value.to_string());
    }

    /// Adds percentiles of a distribution. `goals` are pairs of a quantile, such as 0.99, and its upper bound in ms.
    pub(crate) fn latency(&mut self, what: &str, latencies: &Latencies, goals: &[(f64, f64)]) {
        if latencies.is_empty() {
            return;
        }
        for (name, quantile) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
            let value = latencies.value_at_quantile(quantile) as f64 / 1000.0;
            let goal = goals.iter().find(|(of, _)| *of == quantile);
            let goal = goal.map(|(_, most)| Goal::AtMost(*most));
            self.push(format!("{what} {name}"), value, "ms", goal);
        }
        self.figure(format!("{what} max"), latencies.max() as f64 / 1000.0, "ms");
    }

    /// Adds the requests per second of a period, and the CPU time: per 1000 jobs for each server process, and per 1000
    /// requests for this program.
    pub(crate) fn cpu(&mut self, what: &str, usage: &CpuUsage, jobs: f64, requests: f64) {
        self.figure(format!("{what}: requests"), requests / usage.seconds, "/s");
        for (name, cpu) in &usage.processes {
            self.figure(
                format!("{what}: CPU of {name} per 1000 jobs"),
                cpu / jobs * 1e6,
                "ms",
            );
        }
        if !usage.processes.is_empty() {
            self.figure(
                format!("{what}: CPU of all per 1000 jobs"),
                usage.server_seconds() / jobs * 1e6,
                "ms",
            );
            self.figure(
                format!("{what}: CPU of all"),
                usage.server_seconds() / usage.seconds * 100.0,
                "% of a core",
            );
        }
        self.figure(
            format!("{what}: own CPU per 1000 requests"),
            usage.self_seconds / requests * 1e6,
            "ms",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_long_latencies_are_exact() {
        let mut all = latencies();
        for ms in 1..=1000 {
            all.saturating_record(ms * 1000);
        }
        let near = |quantile: f64, ms: f64| {
            (all.value_at_quantile(quantile) as f64 / 1000.0 - ms).abs() < 1.0
        };
        assert!(near(0.5, 500.0) && near(0.99, 990.0));
    }

    #[test]
    fn goals_are_reached_at_their_bound() {
        assert!(Goal::AtMost(3.0).is_reached(3.0) && !Goal::AtMost(3.0).is_reached(3.1));
        assert!(Goal::AtLeast(3.0).is_reached(3.0) && !Goal::AtLeast(3.0).is_reached(2.9));
    }
}
