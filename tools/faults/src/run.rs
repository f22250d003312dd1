//! One run, from its plan to its report.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::RwLock;

use crate::audit::{Auditor, Audits};
use crate::baseline::Baseline;
use crate::drain::drain;
use crate::fault::PlannedFault;
use crate::history::{History, UnixMicros, in_micros, now};
use crate::injection::inject;
use crate::machine_monitor::{MachineLoad, MachineMonitor};
use crate::oracle::{Defect, Verdict, judge};
use crate::plan::Plan;
use crate::report::RunReport;
use crate::test_cluster::TestCluster;
use crate::traffic::{FaultClient, LANED, LIMIT, Traffic, held_queues};
use crate::unexpected_failover;

/// How long clients continue after the last fault.
const CALM: Duration = Duration::from_secs(2);
/// Largest change of the machine's clock during a run, in µs; after a larger one its times are meaningless.
const CLOCK_MOVED_MAX: u64 = 10_000;

/// Longest stall of the harness, because its machine is paused or overloaded.
const STANDSTILL_MAX: Duration = Duration::from_secs(4);

/// Shared by runs, and held exclusively by a baseline run: no other run of this process may be in progress.
pub(crate) static ALONE: RwLock<()> = RwLock::const_new(());

#[derive(Debug, Clone, Copy)]
pub enum RunProgress<'a> {
    /// Everything is being started.
    Starting,
    /// This fault is about to be injected. Numbers start at 1.
    Fault(usize, &'a PlannedFault),
    /// The queues are being drained.
    Draining,
}

/// Executes a plan and judges its history. The baseline determines the bound for lateness. Logs and settings are
/// written to `folder`.
///
/// # Panics
/// If something cannot be started, or does not recover after a fault.
pub async fn run(
    plan: &Plan,
    folder: &Path,
    baseline: &Baseline,
    report_progress: impl FnMut(RunProgress<'_>),
) -> RunReport {
    let _others_too = ALONE.read().await;
    let seen = execute(plan, folder, CALM, report_progress).await;
    let mut history = seen.history;
    history.bound = baseline.bound(seen.load.slowdown()) + plan.latency_bound();
    history.busy = seen.load.busy(history.bound);
    let mut verdict = judge(&history);
    verdict.findings.extend(seen.deployment_findings.findings);
    RunReport {
        plan: plan.clone(),
        history,
        audits: seen.audits,
        verdict,
    }
}

pub(crate) struct RunObservations {
    /// The history, without bound and busy spans.
    pub(crate) history: History,
    pub(crate) load: MachineLoad,
    pub(crate) audits: Audits,
    deployment_findings: Verdict,
}

/// Executes a plan. Clients continue for `calm` after its last fault.
pub(crate) async fn execute(
    plan: &Plan,
    folder: &Path,
    calm: Duration,
    mut report_progress: impl FnMut(RunProgress<'_>),
) -> RunObservations {
    report_progress(RunProgress::Starting);
    let clocks = (now(), Instant::now());
    let monitor = MachineMonitor::start(folder).expect("a file can be written");
    let test_cluster = TestCluster::start(plan, folder).await;
    let (endpoints, tokens) = test_cluster.endpoints().await;
    let held = held_queues(plan.seed);
    test_cluster.set_policies(&held).await;
    let mut traffic = Traffic::start(plan, &endpoints, &tokens);
    let shared = Arc::clone(&traffic.shared);
    let mut history = History {
        is_replicated: plan.is_durable(),
        limits: vec![LIMIT],
        laned: LANED.to_vec(),
        held: held.to_vec(),
        began: now(),
        ..History::default()
    };
    let mut looked = Verdict::default();
    let mut auditor = Auditor::new(&test_cluster, folder);
    let episodes = RefCell::new(Vec::new());
    let course = async {
        let strikes = async {
            for (number, fault) in plan.faults.iter().enumerate() {
                tokio::time::sleep(Duration::from_millis(fault.after_ms)).await;
                report_progress(RunProgress::Fault(number + 1, fault));
                let struck = inject(&test_cluster, &shared, fault).await;
                episodes.borrow_mut().extend(struck);
            }
        };
        tokio::select! {
            () = strikes => {}
            never = auditor.audit_continuously() => match never {},
        }
        tokio::time::sleep(calm).await;
        report_progress(RunProgress::Draining);
        let mut client = FaultClient::new(&endpoints.proxied, 0, Arc::clone(&traffic.shared));
        drain(&test_cluster, &mut traffic, &mut client, &mut looked).await;
    };
    let note = |episode| episodes.borrow_mut().push(episode);
    tokio::select! {
        () = course => {}
        never = unexpected_failover::watch(&test_cluster, note) => match never {},
    }
    history.episodes = episodes.into_inner();
    history.episodes.sort_by_key(|episode| episode.span.from);
    history.ended = now();
    let load = monitor.end();
    history.operations = std::mem::take(&mut *traffic.shared.recorder.operations());
    let (audits, audited) = auditor.finish(&history.episodes).await;
    looked.findings.extend(audited.findings);
    check_deployment(&test_cluster, &mut looked).await;
    check_clocks(clocks, &load, &mut looked);
    test_cluster.redis.keep_logs(folder).await;
    RunObservations {
        history,
        load,
        audits,
        deployment_findings: looked,
    }
}

/// Adds findings that do not come from the history.
async fn check_deployment(test_cluster: &TestCluster, verdict: &mut Verdict) {
    for defect in test_cluster.redis.defects().await {
        verdict.add_finding(Defect::Orphan, now(), defect);
    }
    for name in test_cluster.ended_daemons() {
        verdict.add_finding(Defect::Broken, now(), format!("{name} has ended"));
    }
}

/// Adds a finding if the times of the run are meaningless.
fn check_clocks(clocks: (UnixMicros, Instant), load: &MachineLoad, verdict: &mut Verdict) {
    let (wall, monotonic) = clocks;
    let moved = now().abs_diff(wall + in_micros(monotonic.elapsed()));
    if moved > CLOCK_MOVED_MAX {
        let text = format!(
            "the machine's clock was moved by {moved} µs: the times of this run are meaningless"
        );
        verdict.add_finding(Defect::Void, now(), text);
    }
    let standstill = load.standstill();
    if standstill > STANDSTILL_MAX {
        let text = format!(
            "the harness was stalled for {standstill:?}: the times of this run are meaningless"
        );
        verdict.add_finding(Defect::Void, now(), text);
    }
}
