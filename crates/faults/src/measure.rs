//! Yardstick runs: clients as in every run of a deployment, and no faults.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::baseline::Baseline;
use crate::oracle::judge;
use crate::plan::{Deployment, Plan, Wishes};
use crate::report::Report;
use crate::run::{ALONE, carry_out};

/// How long clients are at work before everything comes to its end.
const MEASURED: Duration = Duration::from_secs(15);
/// Chooses the clients.
const SEED: u64 = 0;
/// What busy seconds are told by, in µs, where there is no bound yet.
const BOUND: u64 = 300_000;
const DELIVERIES_MIN: usize = 300;

/// The yardstick of a deployment that is kept in `folder`. Where there is none it is made, once no other run of this
/// process is in progress, and kept if the machine was not too busy.
///
/// # Errors
/// It cannot be read or written.
///
/// # Panics
/// When something cannot be started.
pub async fn yardstick(folder: &Path, deployment: Deployment) -> io::Result<Baseline> {
    let _alone = match Baseline::read(folder, deployment)? {
        Some(kept) => return Ok(kept),
        None => ALONE.write().await,
    };
    // Another run may have made it meanwhile.
    match Baseline::read(folder, deployment)? {
        Some(kept) => Ok(kept),
        None => measure(folder, deployment).await,
    }
}

/// Makes a yardstick run, in place of one that is kept in `folder`. Where too few jobs came in time it is not kept.
///
/// # Errors
/// It cannot be written.
///
/// # Panics
/// When something cannot be started.
pub async fn measure(folder: &Path, deployment: Deployment) -> io::Result<Baseline> {
    let wishes = Wishes {
        deployment: Some(deployment),
        ..Wishes::default()
    };
    let plan = Plan {
        faults: Vec::new(),
        distances_ms: Vec::new(),
        has_second_redis: false,
        ..Plan::draw(SEED, &wishes)
    };
    let logs = folder.join(format!("yardstick-{}", deployment.name()));
    std::fs::create_dir_all(&logs)?;
    let seen = carry_out(&plan, &logs.canonicalize()?, MEASURED, |_| {}).await;
    let mut history = seen.history;
    history.bound = BOUND;
    history.busy = seen.pace.busy(BOUND);
    let report = Report {
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
        .filter(|it| !busy.iter().any(|span| span.meets(&it.waited)));
    let late: Vec<u64> = quiet.map(|it| it.late).collect();
    let latest = late.iter().copied().max().unwrap_or_default();
    let slowdown = seen.pace.slowdown();
    let deliveries = late.len();
    // On a machine so busy that few jobs came in time it says too little to be kept.
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
