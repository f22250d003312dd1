//! A soak, from its start to its report.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::consumer::consume;
use super::deployment::{AuditEnd, RESTARTED, SoakDeployment};
use super::load::{self, CONSUMERS, QUIET_CONSUMERS};
use super::pace::SoakPace;
use super::publisher::publish;
use super::results::{SoakAudits, SoakReport, SoakRestart};
use super::sample::{Sampler, SoakSample};
use super::scrape::{ScrapeCounts, scrape};
use super::state::SoakState;
use super::tally::LatenessTally;
use super::times::SoakTimes;
use crate::history::now;

/// Publishers of the load.
const PUBLISHERS: usize = 24;
/// Jobs that may be in flight while the capacity is measured. Retried jobs are in flight for a second.
const IN_FLIGHT: usize = 1000;
/// The part of the capacity that a soak uses.
const LOAD_PART: f64 = 0.5;
/// The least rate, in jobs per second.
const RATE_MIN: f64 = 1.0;
/// How long a consumer of a busy and of a quiet queue waits for jobs.
const WAIT: Duration = Duration::from_secs(5);
const QUIET_WAIT: Duration = Duration::from_secs(20);
const JUDGE_PAUSE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy)]
pub struct SoakOptions {
    /// How long to measure.
    pub length: Duration,
    /// Jobs per second; `None` = half of the measured capacity.
    pub rate: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
pub enum SoakProgress<'a> {
    /// The capacity is being measured for this time.
    Calibrating(Duration),
    /// The measured time begins.
    Running {
        /// Jobs per second.
        rate: f64,
        /// The measured capacity, in jobs per second.
        capacity: Option<f64>,
        /// The address of the first API.
        api: SocketAddr,
        /// An API key of the namespace `soak`, with all scopes.
        api_key: &'a str,
    },
    /// A sample, about once a minute.
    Sample(&'a SoakSample),
    /// A process restarts.
    Restarting(&'static str),
    /// No more jobs are published; delayed jobs are waited for.
    Draining(usize),
}

/// Runs a soak. Logs are written to `folder`.
///
/// # Panics
/// If something cannot be started, or a process does not stop.
pub async fn run_soak(
    options: SoakOptions,
    folder: &Path,
    report_progress: impl Fn(SoakProgress<'_>),
) -> SoakReport {
    let times = SoakTimes::new(options.length);
    let deployment = SoakDeployment::start(folder).await;
    let credentials = deployment.prepare().await;
    let addresses = deployment.addresses();
    let state = Arc::new(SoakState::new(times, addresses, credentials));
    let mut consumers = start_consumers(&state);
    let capacity = match options.rate {
        Some(_) => None,
        None => {
            report_progress(SoakProgress::Calibrating(times.calibration));
            Some(capacity(&state).await)
        }
    };
    let rate = options.rate.or(capacity.map(|all| all * LOAD_PART));
    let rate = rate.unwrap_or_default().max(RATE_MIN);
    report_progress(SoakProgress::Running {
        rate,
        capacity,
        api: state.addresses[0],
        api_key: &state.credentials.api_key,
    });
    let mut measured = measure(&deployment, &state, rate, &report_progress).await;
    report_progress(SoakProgress::Draining(state.jobs().pending()));
    drain(&state).await;
    state.end();
    consumers.shutdown().await;
    audit(&deployment, &measured.audits).await;
    let jobs = state.jobs();
    let audits = std::mem::take(&mut *locked(&measured.audits));
    let scrapes = locked(&measured.scrapes).clone();
    measured.restarts.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    SoakReport {
        times,
        capacity,
        rate,
        left_out: measured.left_out,
        samples: measured.samples,
        lateness_p99_ms: state.lateness().quarters().map(|of| of.p99 as f64 / 1000.0),
        jobs: jobs.counts(),
        defects: jobs.described().to_vec(),
        errors: state.tally.errors(),
        audits,
        restarts: measured.restarts,
        scrapes,
    }
}

/// The rest of the measured time.
#[derive(Default)]
struct SoakMeasurements {
    samples: Vec<SoakSample>,
    restarts: Vec<SoakRestart>,
    audits: Mutex<SoakAudits>,
    scrapes: Mutex<ScrapeCounts>,
    left_out: u64,
}

fn start_consumers(state: &Arc<SoakState>) -> JoinSet<()> {
    let mut consumers = JoinSet::new();
    let busy = load::busy_queues();
    let quiet = load::quiet_queues();
    let busy = busy.iter().map(|queue| (*queue, CONSUMERS, WAIT));
    let quiet = quiet
        .iter()
        .map(|queue| (*queue, QUIET_CONSUMERS, QUIET_WAIT));
    for (queue, count, wait) in busy.chain(quiet) {
        for number in 0..count {
            consumers.spawn(consume(Arc::clone(state), queue, number, wait));
        }
    }
    consumers
}

fn start_publishers(state: &Arc<SoakState>, pace: &Arc<SoakPace>) -> JoinSet<()> {
    let mut publishers = JoinSet::new();
    for number in 0..PUBLISHERS {
        let (state, pace) = (Arc::clone(state), Arc::clone(pace));
        publishers.spawn(publish(state, pace, number, rand::random()));
    }
    publishers
}

/// Measures how many jobs per second can be published, delivered and ended, and waits until all of them have ended.
async fn capacity(state: &Arc<SoakState>) -> f64 {
    let length = state.times.calibration;
    let pace = Arc::new(SoakPace::closed(IN_FLIGHT, length));
    let publishers = start_publishers(state, &pace);
    // The first part opens connections and loads scripts.
    tokio::time::sleep(length / 4).await;
    let (begin, ended) = (Instant::now(), state.jobs().counts().ended);
    join_all(publishers).await;
    let ended = state.jobs().counts().ended - ended;
    let rate = ended as f64 / begin.elapsed().as_secs_f64();
    drain(state).await;
    rate
}

/// Runs publishers, restarts, audits, scrapes and samples for the whole length.
async fn measure(
    deployment: &SoakDeployment,
    state: &Arc<SoakState>,
    rate: f64,
    report_progress: &impl Fn(SoakProgress<'_>),
) -> SoakMeasurements {
    let times = state.times;
    let mut measured = SoakMeasurements::default();
    let mut sampler = Sampler::new(deployment.redis_control().await, state);
    *state.lateness() = LatenessTally::new(now(), times.length);
    let begin = Instant::now();
    let pace = Arc::new(SoakPace::open(rate, times.length));
    let publishers = start_publishers(state, &pace);
    let admin = deployment.admin_addresses();
    let SoakMeasurements {
        samples,
        restarts,
        audits,
        scrapes,
        ..
    } = &mut measured;
    let (audits, scrapes) = (&*audits, &*scrapes);
    let sampling = async {
        let mut ticks =
            tokio::time::interval_at(tokio::time::Instant::now() + times.sample, times.sample);
        let mut shown = Duration::ZERO;
        while begin.elapsed() < times.length {
            ticks.tick().await;
            let sample = sampler.take(deployment, state, scrapes).await;
            let at = begin.elapsed();
            if at >= shown + times.progress {
                shown = at;
                report_progress(SoakProgress::Sample(&sample));
            }
            samples.push(sample);
        }
    };
    let restarting = restart_in_turns(deployment, times, begin, restarts, report_progress);
    let auditing = async {
        let mut next = times.period / 2;
        while next < times.length {
            tokio::time::sleep(next.saturating_sub(begin.elapsed())).await;
            audit(deployment, audits).await;
            next += times.period;
        }
    };
    let work = async { tokio::join!(sampling, restarting, auditing) };
    tokio::select! {
        _ = work => {}
        () = scrape(&admin, times.scrape, scrapes) => {}
        never = judge_continuously(state) => match never {},
    }
    join_all(publishers).await;
    measured.left_out = pace.left_out();
    measured
}

/// Judges jobs once a second, so that each time it is few.
async fn judge_continuously(state: &SoakState) -> Infallible {
    loop {
        tokio::time::sleep(JUDGE_PAUSE).await;
        state.judge(now());
    }
}

/// Restarts one process after each period.
async fn restart_in_turns(
    deployment: &SoakDeployment,
    times: SoakTimes,
    begin: Instant,
    restarts: &mut Vec<SoakRestart>,
    report_progress: &impl Fn(SoakProgress<'_>),
) {
    let mut next = times.period;
    for name in RESTARTED.iter().cycle() {
        if next + times.period / 2 > times.length {
            return;
        }
        tokio::time::sleep(next.saturating_sub(begin.elapsed())).await;
        report_progress(SoakProgress::Restarting(name));
        let at = Instant::now();
        deployment.restart(name).await;
        restarts.push(SoakRestart {
            at_s: at.duration_since(begin).as_secs_f64(),
            name,
            took: at.elapsed(),
        });
        next += times.period;
    }
}

async fn audit(deployment: &SoakDeployment, audits: &Mutex<SoakAudits>) {
    let ended = deployment.audit().await;
    let mut audits = locked(audits);
    match ended {
        AuditEnd::Done(findings) => {
            audits.done += 1;
            audits.findings.extend(findings);
        }
        AuditEnd::Failed(output) => {
            audits.failed += 1;
            audits.findings.push(format!("could not be done: {output}"));
        }
    }
}

/// Waits until every job has ended, or counts as lost.
async fn drain(state: &SoakState) {
    while state.jobs().pending() > 0 {
        state.judge(now());
        tokio::time::sleep(POLL).await;
    }
    state.judge(now());
}

async fn join_all(mut tasks: JoinSet<()>) {
    while let Some(ended) = tasks.join_next().await {
        ended.expect("a client does not panic");
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
