//! The table of a run.

use std::fmt::Write;

use super::run_report::RunReport;
use crate::history::{RequestOutcome, UnixMicros, Wire};

const SHOWN: usize = 20;

pub(super) fn run_table(report: &RunReport) -> String {
    let mut text = head(report);
    if !report.history.proves_lateness() {
        text += "  the machine was too busy: this run proves nothing about lateness\n";
    }
    let width = report
        .history
        .episodes
        .iter()
        .map(|it| it.what.chars().count())
        .max();
    let width = width.unwrap_or_default();
    for episode in &report.history.episodes {
        let at = seconds(episode.span.from.saturating_sub(report.history.began));
        let length = seconds(episode.span.to - episode.span.from);
        let worst = shown_ms(report.latest_delivery_in(episode).map(|it| it.late));
        let again = shown_ms(report.recovery_after(episode));
        let what = &episode.what;
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            text,
            "  {at:>6} s  {length:>5} s  {what:width$}  latest {worst:>9}, first publish after it {again:>9}"
        );
    }
    for finding in report.verdict.findings.iter().take(SHOWN) {
        let at = seconds(finding.at.saturating_sub(report.history.began));
        let _ = writeln!(
            text,
            "  {at:>6} s  {}: {}",
            finding.defect.to_string().to_uppercase(),
            finding.text
        );
    }
    let more = report.verdict.findings.len().saturating_sub(SHOWN);
    if more > 0 {
        let _ = writeln!(text, "  … and {more} more");
    }
    text
}

fn head(report: &RunReport) -> String {
    let (plan, counts) = (&report.plan, &report.verdict.counts);
    let outcomes = report.history.operations.iter().map(|it| &it.outcome);
    let (mut failed, mut open, mut not_sent) = (0, 0, 0);
    for outcome in outcomes {
        match outcome {
            RequestOutcome::Failed(_) => failed += 1,
            RequestOutcome::Unknown(_) => open += 1,
            RequestOutcome::NotSent | RequestOutcome::Refused(_) => not_sent += 1,
            _ => {}
        }
    }
    let lateness = Percentiles::new(report.verdict.lateness.iter().map(|it| it.late).collect());
    format!(
        "seed {}: {}, {} apis, {} pumps, {} s\n  \
         {} jobs published, {} perhaps, {} delivered, {} deliveries, {} lost with redis\n  \
         lmstfy: {}\n  \
         native: {}\n  \
         {} requests: {failed} failed, {open} without an answer, {not_sent} refused or not sent\n  \
         lateness: {lateness}, bound {}, machine busy for {} s; longest time without a publish {}\n  \
         {} audits, {} more could not be completed\n",
        plan.seed,
        plan.deployment.name_with(plan.is_replicated),
        plan.apis,
        plan.pumps,
        seconds(report.history.ended.saturating_sub(report.history.began)),
        counts.published,
        counts.open,
        counts.delivered,
        counts.deliveries,
        counts.lost_with_redis,
        carried_out(report, Wire::Lmstfy),
        carried_out(report, Wire::Native),
        report.history.operations.len(),
        ms(report.history.bound),
        seconds(
            report
                .history
                .busy
                .iter()
                .map(|span| span.to - span.from)
                .sum()
        ),
        ms(report.longest_gap()),
        report.audits.done,
        report.audits.failed,
    )
}

fn carried_out(report: &RunReport, wire: Wire) -> String {
    let counts = report.carried_out(wire).into_iter();
    let counts: Vec<String> = counts
        .map(|(verb, count)| format!("{count} {verb}"))
        .collect();
    counts.join(", ")
}

struct Percentiles(Vec<u64>);

impl Percentiles {
    fn new(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        Self(values)
    }

    fn at(&self, percent: usize) -> u64 {
        let rank = (self.0.len() * percent / 100).min(self.0.len().saturating_sub(1));
        self.0.get(rank).copied().unwrap_or_default()
    }
}

impl std::fmt::Display for Percentiles {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [median, p99, worst] = [50, 99, 100].map(|percent| ms(self.at(percent)));
        write!(out, "median {median}, p99 {p99}, worst {worst}")
    }
}

pub(super) fn shown_ms(time: Option<u64>) -> String {
    time.map_or_else(|| "-".to_owned(), ms)
}

fn ms(time: u64) -> String {
    format!("{:.1} ms", time as f64 / 1000.0)
}

pub(super) fn seconds(time: UnixMicros) -> String {
    format!("{:.1}", time as f64 / 1_000_000.0)
}
