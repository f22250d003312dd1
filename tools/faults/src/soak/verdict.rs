//! Whether a soak is good: a pure function of its records.

use super::deployment::{PROCESSES, RESTARTED};
use super::results::SoakReport;
use super::sample::{ProcessSample, SoakSample};

/// How much memory may differ from its value after the first period.
const MEMORY_PART: f64 = 0.02;
/// How much larger the lateness of the last quarter may be than in the first.
const LATENESS_FACTOR: f64 = 1.2;
/// How many more open files there may be at the end.
const FILES_FACTOR: f64 = 1.1;
const FILES_MORE: f64 = 8.0;
/// How much the number of jobs in Redis may differ for two samples of its memory to be compared: this part of it, or
/// three times its square root, which is how far the number of a steady random load goes.
const PENDING_PART: f64 = 0.02;
const PENDING_ROOTS: f64 = 3.0;
/// The least part of the samples of a period whose jobs are as many as after the first one.
const COMPARABLE_PART: usize = 4;
/// The part of a period whose samples are the reference.
const REFERENCE_PART: f64 = 0.2;

/// One thing that must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoakCheck {
    /// The conditions of a good soak.
    pub name: String,
    /// The measured value and its bound.
    pub text: String,
    pub holds: bool,
}

/// Returns all checks of a run.
#[must_use]
pub fn soak_checks(report: &SoakReport) -> Vec<SoakCheck> {
    let mut checks = vec![jobs(report), audits(report)];
    checks.extend(memory_of_processes(report));
    checks.push(memory_of_redis(report));
    checks.push(lateness(report));
    checks.extend(open_files(report));
    checks
}

fn jobs(report: &SoakReport) -> SoakCheck {
    let jobs = &report.jobs;
    let found = jobs.findings.iter();
    let found: Vec<String> = found
        .map(|(defect, count)| format!(", {count} {defect}"))
        .collect();
    SoakCheck {
        name: "jobs".to_owned(),
        text: format!("{} published{}", jobs.published, found.concat()),
        holds: jobs.published > 0 && jobs.findings.is_empty(),
    }
}

fn audits(report: &SoakReport) -> SoakCheck {
    let audits = &report.audits;
    SoakCheck {
        name: "audits".to_owned(),
        text: format!(
            "{} done, {} failed, {} findings",
            audits.done,
            audits.failed,
            audits.findings.len()
        ),
        holds: audits.done > 0 && audits.failed == 0 && audits.findings.is_empty(),
    }
}

/// The processes that were not restarted, with their positions. This program is not judged.
fn steady_processes() -> impl Iterator<Item = (usize, &'static str)> {
    let all = PROCESSES.into_iter().enumerate();
    all.filter(|(_, name)| !RESTARTED.contains(name) && !["redis", "driver"].contains(name))
}

fn memory_of_processes(report: &SoakReport) -> impl Iterator<Item = SoakCheck> + '_ {
    steady_processes().map(|(at, name)| {
        let memory = |process: &ProcessSample| process.resident_bytes as f64;
        let value = |sample: &SoakSample| sample.processes[at].as_ref().map(memory);
        memory_check(&format!("memory of {name}"), report, value)
    })
}

/// Compares samples with as many jobs in Redis as after the first period.
fn memory_of_redis(report: &SoakReport) -> SoakCheck {
    let pending = |sample: &SoakSample| Some(sample.pending as f64);
    let reference = median(reference(report).filter_map(pending));
    let reference = reference.unwrap_or_default();
    let most = (reference * PENDING_PART).max(reference.sqrt() * PENDING_ROOTS);
    let is_comparable = |sample: &SoakSample| (sample.pending as f64 - reference).abs() <= most;
    let value =
        |sample: &SoakSample| is_comparable(sample).then_some(sample.redis_used_bytes as f64);
    memory_check("memory of redis at equal jobs", report, value)
}

/// Compares the median of each period with the reference.
fn memory_check(
    name: &str,
    report: &SoakReport,
    value: impl Fn(&SoakSample) -> Option<f64>,
) -> SoakCheck {
    let failed = |text: &str| SoakCheck {
        name: name.to_owned(),
        text: text.to_owned(),
        holds: false,
    };
    let Some(first) = median(reference(report).filter_map(&value)) else {
        return failed("nothing to compare with after the first period");
    };
    let mut changes = Vec::new();
    let mut last_is_compared = false;
    for period in periods(report) {
        let values: Vec<f64> = period.iter().copied().filter_map(&value).collect();
        last_is_compared = values.len() * COMPARABLE_PART >= period.len();
        if let Some(median) = median(values.into_iter()).filter(|_| last_is_compared) {
            changes.push(median / first - 1.0);
        }
    }
    let worst = changes
        .iter()
        .copied()
        .max_by(|a, b| a.abs().total_cmp(&b.abs()));
    let Some(worst) = worst.filter(|_| last_is_compared) else {
        return failed("the last period has too few samples to compare");
    };
    SoakCheck {
        name: name.to_owned(),
        text: format!(
            "{:.1} MiB after the first period, then at most {:+.2} % (± {} %)",
            first / 1_048_576.0,
            worst * 100.0,
            MEMORY_PART * 100.0
        ),
        holds: worst.abs() <= MEMORY_PART,
    }
}

fn lateness(report: &SoakReport) -> SoakCheck {
    let [first, .., last] = report.lateness_p99_ms;
    let machine = match calculation_change(report) {
        Some(change) => format!("; a constant calculation: × {change:.2}"),
        None => String::new(),
    };
    SoakCheck {
        name: "lateness p99".to_owned(),
        text: format!(
            "{first:.2} ms in the first quarter, {last:.2} ms in the last, × {:.2} (at most {LATENESS_FACTOR}){machine}",
            last / first
        ),
        // False if nothing was measured.
        holds: first > 0.0 && last > 0.0 && last <= first * LATENESS_FACTOR,
    }
}

fn open_files(report: &SoakReport) -> impl Iterator<Item = SoakCheck> + '_ {
    steady_processes().map(|(at, name)| {
        let files = |process: &ProcessSample| process.open_files as f64;
        let value = |sample: &SoakSample| sample.processes[at].as_ref().map(files);
        let first = median(reference(report).filter_map(value)).unwrap_or(f64::NAN);
        let last = periods(report).pop().unwrap_or_default();
        let last = median(last.into_iter().filter_map(value)).unwrap_or(f64::NAN);
        let bound = first * FILES_FACTOR + FILES_MORE;
        SoakCheck {
            name: format!("open files of {name}"),
            text: format!(
                "{first:.0} after the first period, {last:.0} at the end (at most {bound:.0})"
            ),
            holds: last <= bound,
        }
    })
}

/// The CPU time of the calculation in the last quarter as a multiple of the time in the first. It is not judged: it shows whether
/// the machine has changed.
fn calculation_change(report: &SoakReport) -> Option<f64> {
    let length = report.times.length.as_secs_f64();
    let of_quarter = |from: f64| {
        let (from, to) = (length * from, length * (from + 0.25));
        let samples = report.samples.iter();
        let samples = samples.filter(move |sample| (from..to).contains(&sample.at_s));
        median(samples.map(|sample| sample.calculation_us))
    };
    Some(of_quarter(0.75)? / of_quarter(0.0)?)
}

/// The samples right after the first period.
fn reference(report: &SoakReport) -> impl Iterator<Item = &SoakSample> {
    let from = report.times.period.as_secs_f64();
    let to = from * (1.0 + REFERENCE_PART);
    let samples = report.samples.iter();
    samples.filter(move |sample| (from..to).contains(&sample.at_s))
}

/// The samples of each period after the first.
fn periods(report: &SoakReport) -> Vec<Vec<&SoakSample>> {
    let period = report.times.period.as_secs_f64();
    let count = (report.times.length.as_secs_f64() / period) as usize;
    let of = |number: usize| {
        let samples = report.samples.iter();
        let is_of = |sample: &&SoakSample| (sample.at_s / period) as usize == number;
        samples.filter(is_of).collect()
    };
    (1..count).map(of).collect()
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests;
