//! Baseline runs: the clients of a normal run, and no faults.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::baseline::Baseline;
use crate::deployment::Deployment;
use crate::oracle::judge;
use crate::plan::{Plan, PlanOptions};
use crate::report::RunReport;
use crate::run::{ALONE, execute};

/// How long clients run before the queues are drained.
const MEASURED: Duration = Duration::from_secs(15);
/// Seed of the plan and of the clients.
const SEED: u64 = 0;
/// Bound for the detection of busy seconds in a baseline run, in µs.
const BOUND: u64 = 300_000;
const DELIVERIES_MIN: usize = 300;

/// Returns the baseline of a deployment that is stored in `folder`. If there is none, waits until no other run of
/// this process is in progress, measures it, and stores it if the machine was not too busy.
///
/// # Errors
/// The baseline cannot be read or written.
///
/// # Panics
/// If something cannot be started.
pub async fn baseline(folder: &Path, deployment: Deployment) -> io::Result<Baseline> {
    let _alone = match Baseline::read(folder, deployment)? {
        Some(kept) => return Ok(kept),
        None => ALONE.write().await,
    };
    // Another run may have measured it meanwhile.
    match Baseline::read(folder, deployment)? {
        Some(kept) => Ok(kept),
        None => measure_baseline(folder, deployment).await,
    }
}

/// Makes a baseline run, and replaces the baseline that is stored in `folder`. Does not store a result from fewer
/// than 300 deliveries.
///
/// # Errors
/// The baseline cannot be written.
///
/// # Panics
/// If something cannot be started.
pub async fn measure_baseline(folder: &Path, deployment: Deployment) -> io::Result<Baseline> {
    let options = PlanOptions {
        deployment: Some(deployment),
        ..PlanOptions::default()
    };
    let plan = Plan {
        faults: Vec::new(),
        latencies_ms: Vec::new(),
        has_second_redis: false,
        ..Plan::draw(SEED, &options)
    };
    let logs = folder.join(format!("baseline-{}", deployment.name()));
    std::fs::create_dir_all(&logs)?;
    let seen = execute(&plan, &logs.canonicalize()?, MEASURED, |_| {}).await;
    let mut history = seen.history;
    history.bound = BOUND;
    history.busy = seen.load.busy(BOUND);
    let report = RunReport {
        verdict: judge(&history),
        plan,
        history,
        audits: seen.audits,
    };
    report.write_history(&logs)?;
    let busy = &report.history.busy;
    let quiet = report
        .verdict
        .lateness
        .iter()
        .filter(|it| !busy.iter().any(|span| span.overlaps(&it.waited)));
    let late: Vec<u64> = quiet.map(|it| it.late).collect();
    let latest = late.iter().copied().max().unwrap_or_default();
    let slowdown = seen.load.slowdown();
    let deliveries = late.len();
    // On a machine so busy that only few deliveries count, the result is not reliable enough to be stored.
    let is_telling = deliveries >= DELIVERIES_MIN;
    let baseline = Baseline {
        latest: if is_telling {
            latest
        } else {
            latest.max(BOUND)
        },
        slowdown,
        deliveries,
    };
    if is_telling {
        baseline.write(folder, deployment)?;
    }
    Ok(baseline)
}
