//! One run, from its start to its verdict.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::RwLock;

use crate::audit::{Auditor, Audits};
use crate::baseline::Baseline;
use crate::drain::drain;
use crate::fault::Fault;
use crate::history::{History, Moment, now};
use crate::oracle::{Defect, Verdict, judge};
use crate::plan::Plan;
use crate::report::Report;
use crate::site::Site;
use crate::strike::strike;
use crate::traffic::{Client, LANED, LIMIT, Traffic};
use crate::unasked;
use crate::yardstick::{Pace, Yardstick};

/// How long clients go on after the last fault.
const CALM: Duration = Duration::from_secs(2);
/// How far the clock of the machine may be moved during a run, in µs, before its times mean nothing.
const CLOCK_MOVED_MAX: u64 = 10_000;

/// How long the harness may stand still, because its machine does or has too much to do.
const STANDSTILL_MAX: Duration = Duration::from_secs(4);

/// Held by runs; a yardstick run has the machine for itself, as far as this process is concerned.
pub(crate) static ALONE: RwLock<()> = RwLock::const_new(());

/// How far a run is.
#[derive(Debug, Clone, Copy)]
pub enum Step<'a> {
    /// Everything is started.
    Starting,
    /// This fault is about to happen, the one of this number, from 1.
    Fault(usize, &'a Fault),
    /// Every job comes to its end.
    Draining,
}

/// Carries out a plan, and judges what was seen. How late a job may be follows from the yardstick run. All that is
/// written while it runs goes to `folder`.
///
/// # Panics
/// When something cannot be started, or does not come back after a fault.
pub async fn run(
    plan: &Plan,
    folder: &Path,
    baseline: &Baseline,
    tell: impl FnMut(Step<'_>),
) -> Report {
    let _others_too = ALONE.read().await;
    let seen = carry_out(plan, folder, CALM, tell).await;
    let mut history = seen.history;
    history.bound = baseline.bound(seen.pace.slowdown()) + plan.distance_bound();
    history.busy = seen.pace.busy(history.bound);
    let mut verdict = judge(&history);
    verdict.findings.extend(seen.looked.findings);
    Report {
        plan: plan.clone(),
        history,
        audits: seen.audits,
        verdict,
    }
}

/// What there is to judge.
pub(crate) struct Seen {
    /// Without bound and busy times.
    pub(crate) history: History,
    pub(crate) pace: Pace,
    pub(crate) audits: Audits,
    /// What was found in the world.
    looked: Verdict,
}

/// Carries out a plan; clients go on for so long after its last fault.
pub(crate) async fn carry_out(
    plan: &Plan,
    folder: &Path,
    calm: Duration,
    mut tell: impl FnMut(Step<'_>),
) -> Seen {
    tell(Step::Starting);
    let clocks = (now(), Instant::now());
    let yardstick = Yardstick::start(folder).expect("a file can be written");
    let site = Site::start(plan, folder).await;
    let (doors, tokens) = site.doors().await;
    let mut traffic = Traffic::start(plan, &doors, &tokens);
    let shared = Arc::clone(&traffic.shared);
    let mut history = History {
        is_replicated: plan.keeps_what_it_acknowledged(),
        limits: vec![LIMIT],
        laned: LANED.to_vec(),
        began: now(),
        ..History::default()
    };
    let mut looked = Verdict::default();
    let mut auditor = Auditor::new(&site, folder);
    let episodes = RefCell::new(Vec::new());
    let course = async {
        let strikes = async {
            for (number, fault) in plan.faults.iter().enumerate() {
                tokio::time::sleep(Duration::from_millis(fault.after_ms)).await;
                tell(Step::Fault(number + 1, fault));
                let struck = strike(&site, &shared, fault).await;
                episodes.borrow_mut().extend(struck);
            }
        };
        tokio::select! {
            () = strikes => {}
            never = auditor.audit_meanwhile() => match never {},
        }
        tokio::time::sleep(calm).await;
        tell(Step::Draining);
        let mut client = Client::new(&doors.usual, 0, Arc::clone(&traffic.shared));
        drain(&site, &mut traffic, &mut client, &mut looked).await;
    };
    let note = |episode| episodes.borrow_mut().push(episode);
    tokio::select! {
        () = course => {}
        never = unasked::watch(&site, note) => match never {},
    }
    history.episodes = episodes.into_inner();
    history.episodes.sort_by_key(|episode| episode.span.from);
    history.ended = now();
    let pace = yardstick.end();
    history.operations = std::mem::take(&mut *traffic.shared.recorder.operations());
    let (audits, audited) = auditor.conclude().await;
    looked.findings.extend(audited.findings);
    look_around(&site, &mut looked).await;
    look_at_clocks(clocks, &pace, &mut looked);
    site.keeper.keep_logs(folder).await;
    Seen {
        history,
        pace,
        audits,
        looked,
    }
}

/// What can be seen without a history.
async fn look_around(site: &Site, verdict: &mut Verdict) {
    for defect in site.keeper.defects().await {
        verdict.find(Defect::Orphan, now(), defect);
    }
    for name in site.ended() {
        verdict.find(Defect::Broken, now(), format!("{name} has ended"));
    }
}

/// Whether times can be believed.
fn look_at_clocks(clocks: (Moment, Instant), pace: &Pace, verdict: &mut Verdict) {
    let (wall, monotonic) = clocks;
    let moved = now().abs_diff(wall + micros(monotonic.elapsed()));
    if moved > CLOCK_MOVED_MAX {
        let text = format!("the machine's clock was moved by {moved} µs: these times mean nothing");
        verdict.find(Defect::Void, now(), text);
    }
    let standstill = pace.standstill();
    if standstill > STANDSTILL_MAX {
        let text =
            format!("the harness itself stood still for {standstill:?}: these times mean nothing");
        verdict.find(Defect::Void, now(), text);
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
