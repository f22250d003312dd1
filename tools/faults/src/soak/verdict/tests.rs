//! Verdicts about samples with planted defects.

use std::time::Duration;

use super::*;
use crate::oracle::Defect;
use crate::soak::job_stream::SoakCounts;
use crate::soak::results::SoakAudits;
use crate::soak::scrape::ScrapeCounts;
use crate::soak::times::SoakTimes;

const MIB: f64 = 1_048_576.0;
const API: usize = 0;
const RESTARTED_API: usize = 1;
const PUMP: usize = 2;

/// An hour as it should be: memory varies a little, a restarted process begins with less.
fn good_hour() -> SoakReport {
    let times = SoakTimes::new(Duration::from_secs(3600));
    let samples = (0..360_u32).map(|number| {
        let at_s = f64::from(number) * 10.0;
        let wave = f64::from(number % 7) / 7.0;
        let process = |mib: f64| {
            Some(ProcessSample {
                resident_bytes: ((mib + wave * 0.3) * MIB) as u64,
                open_files: 100 + u64::from(number % 5),
                cpu_percent: 20.0,
                cpu_wait_percent: 5.0,
            })
        };
        let mut processes = [30.0, 30.0, 20.0, 20.0, 60.0, 15.0].map(process);
        if at_s > 600.0 {
            processes[RESTARTED_API] = process(25.0);
        }
        SoakSample {
            at_s,
            processes,
            redis_used_bytes: ((50.0 + wave * 0.5) * MIB) as u64,
            pending: 20_000 + u64::from(number % 9) * 30,
            calculation_us: if at_s < 2700.0 { 1000.0 } else { 1100.0 },
            ..SoakSample::default()
        }
    });
    SoakReport {
        times,
        capacity: Some(2000.0),
        rate: 1000.0,
        left_out: 0,
        samples: samples.collect(),
        lateness_p99_ms: [3.0, 4.0, 2.9, 3.5],
        jobs: SoakCounts {
            published: 3_600_000,
            ended: 3_600_000,
            deliveries: 3_700_000,
            ..SoakCounts::default()
        },
        defects: Vec::new(),
        errors: Vec::new(),
        audits: SoakAudits {
            done: 7,
            ..SoakAudits::default()
        },
        restarts: Vec::new(),
        scrapes: ScrapeCounts::default(),
    }
}

/// The names of the checks that do not hold.
fn failing(report: &SoakReport) -> Vec<String> {
    let checks = soak_checks(report).into_iter();
    let failing = checks.filter(|check| !check.holds);
    failing.map(|check| check.name).collect()
}

/// Lets a process of a good hour grow by this many bytes per second.
fn with_leak(process: usize, bytes_per_s: f64) -> SoakReport {
    let mut report = good_hour();
    for sample in &mut report.samples {
        if let Some(used) = &mut sample.processes[process] {
            used.resident_bytes = (used.resident_bytes as f64 + bytes_per_s * sample.at_s) as u64;
        }
    }
    report
}

#[test]
fn an_hour_as_it_should_be_is_good() {
    let report = good_hour();
    assert!(report.is_good(), "{}", report.table());
    assert_eq!(soak_checks(&report).len(), 8);
}

#[test]
fn a_leak_of_an_api_or_a_pump_fails_the_run() {
    for (process, name) in [(API, "memory of api-0"), (PUMP, "memory of pump-0")] {
        // A MiB an hour, of 20 or 30.
        assert_eq!(failing(&with_leak(process, MIB / 3600.0)), [name]);
        assert_eq!(failing(&with_leak(process, -MIB / 3600.0)), [name]);
    }
    // A tenth of it is within the bound.
    assert!(failing(&with_leak(API, MIB / 36_000.0)).is_empty());
}

#[test]
fn a_process_that_was_restarted_is_not_compared() {
    assert!(failing(&with_leak(RESTARTED_API, MIB / 60.0)).is_empty());
}

#[test]
fn memory_before_the_end_of_the_first_period_does_not_count() {
    let mut report = good_hour();
    for sample in report.samples.iter_mut().filter(|it| it.at_s < 600.0) {
        sample.processes[API].as_mut().unwrap().resident_bytes /= 2;
    }
    assert!(report.is_good());
}

#[test]
fn redis_is_compared_at_equal_jobs() {
    let mut report = good_hour();
    for sample in report.samples.iter_mut().filter(|it| it.at_s > 2000.0) {
        sample.redis_used_bytes += (2.0 * MIB) as u64;
    }
    let name = "memory of redis at equal jobs";
    assert_eq!(failing(&report), [name]);
    // With more jobs it may use more, in some samples of a period, but not in all of the last.
    for (number, sample) in report.samples.iter_mut().enumerate() {
        if number % 3 > 0 && sample.at_s > 2000.0 {
            sample.pending += 1500;
        } else if sample.at_s > 2000.0 {
            sample.redis_used_bytes -= (2.0 * MIB) as u64;
        }
    }
    assert!(failing(&report).is_empty());
    for sample in report.samples.iter_mut().filter(|it| it.at_s > 3000.0) {
        sample.pending = 40_000;
    }
    assert_eq!(failing(&report), [name]);
}

#[test]
fn lateness_may_be_a_fifth_more_in_the_last_quarter() {
    let mut report = good_hour();
    report.lateness_p99_ms = [3.0, 9.0, 9.0, 3.5];
    assert!(report.is_good());
    report.lateness_p99_ms = [3.0, 2.0, 2.0, 3.7];
    assert_eq!(failing(&report), ["lateness p99"]);
    report.lateness_p99_ms = [0.0; 4];
    assert_eq!(failing(&report), ["lateness p99"]);
}

#[test]
fn each_defect_of_jobs_and_each_finding_of_an_audit_fails_the_run() {
    let plants: [fn(&mut SoakCounts); 2] = [
        |jobs| {
            jobs.findings.insert(Defect::Early, 1);
        },
        |jobs| jobs.published = 0,
    ];
    for plant in plants {
        let mut report = good_hour();
        plant(&mut report.jobs);
        assert_eq!(failing(&report), ["jobs"]);
    }
    let mut report = good_hour();
    report.audits.findings.push("bucket 3: no_body".to_owned());
    assert_eq!(failing(&report), ["audits"]);
    report.audits = SoakAudits::default();
    assert_eq!(failing(&report), ["audits"]);
}

#[test]
fn open_files_that_grow_fail_the_run() {
    let mut report = good_hour();
    for sample in &mut report.samples {
        let used = sample.processes[API].as_mut().unwrap();
        used.open_files += sample.at_s as u64 / 60;
    }
    assert_eq!(failing(&report), ["open files of api-0"]);
}

#[test]
fn a_run_without_samples_is_not_good() {
    let mut report = good_hour();
    report.samples.clear();
    assert!(failing(&report).len() >= 5, "{:?}", failing(&report));
}

#[test]
fn the_table_and_the_csv_have_all_of_it() {
    let mut report = good_hour();
    report.samples[100].processes[RESTARTED_API] = None;
    report.errors.push("3 ack: lost".to_owned());
    let table = report.table();
    for said in [
        "holds  jobs: 3600000 published",
        "request: 3 ack: lost",
        "1000 jobs/s of 2000 possible",
        "× 1.17 (at most 1.2); a constant calculation: × 1.10",
    ] {
        assert!(table.contains(said), "{said}: {table}");
    }
    let csv = report.csv();
    let fields: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(fields.len(), 361);
    assert!(fields.iter().all(|count| *count == 36), "{fields:?}");
}
