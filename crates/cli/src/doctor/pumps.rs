//! The ports of pumps, and the timers in the buckets that they lead.

use super::metrics::{MetricSample, max, samples, sum};
use super::reach::reach;
use super::report::DoctorReport;

/// As in the alerts of docs/operating.md.
const OVERDUE_SECONDS: f64 = 5.0;
/// The check of timers.
const TIMERS: &str = "timers";

/// Checks the ports of pumps.
pub(super) async fn check_pumps(report: &mut DoctorReport, urls: &[String]) {
    if urls.is_empty() {
        return report.skipped(TIMERS, "no pump was named: use --pump");
    }
    let mut held = 0.0;
    let mut reached = 0_usize;
    let mut overdue = OverdueTimers::default();
    let mut cold = ColdTasks::default();
    for url in urls {
        let Some(server) = reach(report, "pump", url).await else {
            continue;
        };
        server.check_ready(report, "pump").await;
        let page = server.probe.get(&format!("{}/metrics", server.url)).await;
        let page = page.map(|answer| answer.text()).unwrap_or_default();
        let samples = samples(&page);
        match sum(&samples, "tidegate_pump_buckets_held") {
            Some(buckets) => {
                held += buckets;
                reached += 1;
                overdue.add(&samples);
                cold.add(&samples);
            }
            None => report.problem(
                "pump",
                format!("{} is not the port of a pump", server.url),
                "use the port of `admin_listen` of tidegate-pumpd with --pump, 7779 by default",
            ),
        }
    }
    if reached == 0 {
        return;
    }
    match held > 0.0 {
        true => report.ok("pump", format!("the pumps lead {held} buckets")),
        false => report.problem(
            "pump",
            "the pumps lead no bucket, so they move no jobs",
            "see the logs of the pumps, and check that they use the same Redis as the API",
        ),
    }
    overdue.report(report);
    cold.report(report);
}

/// The report of pumps about the timers in the buckets that they lead.
#[derive(Default)]
struct OverdueTimers {
    longest_s: f64,
    missing_buckets: f64,
}

impl OverdueTimers {
    fn add(&mut self, samples: &[MetricSample<'_>]) {
        let overdue_s = max(samples, "tidegate_oldest_overdue_seconds");
        self.longest_s = self.longest_s.max(overdue_s.unwrap_or_default());
        let missing = sum(samples, "tidegate_collection_missing_buckets");
        self.missing_buckets += missing.unwrap_or_default();
    }

    fn report(&self, report: &mut DoctorReport) {
        if self.missing_buckets > 0.0 {
            return report.problem(
                TIMERS,
                format!("{} buckets cannot be read", self.missing_buckets),
                "check that Redis, or all primaries of the cluster, run, and answer within 3 s; the logs of the pumps have the reason",
            );
        }
        match self.longest_s > OVERDUE_SECONDS {
            true => report.problem(
                TIMERS,
                format!(
                    "the earliest timer is overdue for {:.0} s; delayed jobs do not become ready",
                    self.longest_s
                ),
                "see the logs of the pumps",
            ),
            false => report.ok(
                TIMERS,
                "no timer is overdue in the buckets that these pumps lead",
            ),
        }
    }
}

/// The report of pumps about the cold tier.
#[derive(Default)]
struct ColdTasks {
    /// Whether any pump has a cold tier.
    is_used: bool,
    failing: f64,
    overdue: f64,
}

impl ColdTasks {
    fn add(&mut self, samples: &[MetricSample<'_>]) {
        let failing = sum(samples, "tidegate_cold_failing");
        self.is_used |= failing.is_some();
        self.failing += failing.unwrap_or_default();
        let overdue = max(samples, "tidegate_cold_overdue_partitions");
        self.overdue = self.overdue.max(overdue.unwrap_or_default());
    }

    fn report(&self, report: &mut DoctorReport) {
        const CHECK: &str = "cold";
        if !self.is_used {
            return;
        }
        if self.failing > 0.0 || self.overdue > 0.0 {
            return report.problem(
                CHECK,
                format!(
                    "the last passes of {} tasks of the cold tier have failed; {} partitions should be back",
                    self.failing, self.overdue
                ),
                "see the logs of the pumps: the object store must be readable, writable, and have about the same time",
            );
        }
        report.ok(
            CHECK,
            "pumps read and write the object store, and all payloads that are due are back",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cold_tier_that_fails_or_is_behind_is_a_problem() {
        let problems = |page: &str| {
            let (mut tasks, mut report) = (ColdTasks::default(), DoctorReport::default());
            tasks.add(&samples(page));
            tasks.report(&mut report);
            report.problems
        };
        let failing = |value: u64| format!("tidegate_cold_failing{{task=\"thaw\"}} {value}\n");
        let overdue = "tidegate_cold_overdue_partitions 2\n";
        assert_eq!(problems(&failing(0)), 0);
        assert_eq!(problems(&failing(1)), 1);
        assert_eq!(problems(&(failing(0) + overdue)), 1);
    }

    #[test]
    fn overdue_timers_and_missing_buckets_of_any_pump_are_problems() {
        let problems = |pages: [&str; 2]| {
            let (mut overdue, mut report) = (OverdueTimers::default(), DoctorReport::default());
            for page in pages {
                overdue.add(&samples(page));
            }
            overdue.report(&mut report);
            report.problems
        };
        let timely = "tidegate_collection_missing_buckets{pool=\"a\"} 0\ntidegate_oldest_overdue_seconds{pool=\"a\"} 4\n";
        let late = "tidegate_oldest_overdue_seconds{pool=\"a\"} 0\ntidegate_oldest_overdue_seconds{pool=\"b\"} 6\n";
        let unread = "tidegate_collection_missing_buckets{pool=\"a\"} 3\n";
        assert_eq!(problems([timely, timely]), 0);
        assert_eq!(problems([timely, late]), 1);
        assert_eq!(problems([unread, timely]), 1);
    }
}
