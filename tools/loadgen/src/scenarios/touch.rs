use std::cell::{Cell, RefCell};
use std::time::Duration;

use clap::Args;
use futures_util::future::try_join_all;

use crate::clock::{created_ms, now_us};
use crate::cpu::CpuUsage;
use crate::error::LoadgenError;
use crate::http::HttpConnection;
use crate::job_tracker::DeliveredJob;
use crate::load_clients::{FillOptions, fill, record_latency};
use crate::report::{Goal, Latencies, latencies};
use crate::request_schedule::RequestSchedule;
use crate::run::ScenarioRun;
use crate::wire::native;

const REDIS_GOAL: Goal = Goal::AtMost(5.0);
const BODY_BYTES: usize = 100;
/// Most jobs of a reserve.
const BATCH_MAX: usize = 256;

/// The flags of `touch`.
#[derive(Debug, Clone, Args)]
pub struct TouchOptions {
    /// Leases that are extended
    #[arg(long, default_value_t = 100_000)]
    leases: u64,
    /// Seconds between two extensions of a lease
    #[arg(long, default_value_t = 20)]
    every: u32,
    /// Length of a lease in seconds
    #[arg(long, default_value_t = 60)]
    lease: u32,
    /// Seconds to measure
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Leases per request, 1 to 256: as many as a worker holds
    #[arg(long, default_value_t = 64)]
    batch: usize,
    /// Connections, each with one request at a time
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// Number of queues that the jobs are spread over
    #[arg(long, default_value_t = 16)]
    queues: usize,
}

/// The leases of one worker, with its requests.
struct HeldLeases {
    count: usize,
    touch: Vec<u8>,
    ack: Vec<u8>,
}

impl TouchOptions {
    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        if !(1..=BATCH_MAX).contains(&self.batch) || self.every == 0 || self.every >= self.lease {
            return Err(LoadgenError::Usage(format!(
                "--batch must be 1 to {BATCH_MAX}, and --every at least 1 and less than --lease"
            )));
        }
        run.report.parameter("leases", self.leases);
        run.report.parameter("every", self.every);
        run.report.parameter("lease", self.lease);
        run.report.parameter("seconds", self.seconds);
        run.report.parameter("batch", self.batch);
        run.report.parameter("queues", self.queues);
        let queues = run.queues("touch", self.queues);
        let filling = FillOptions {
            body_bytes: BODY_BYTES,
            ..FillOptions::new(&queues, self.leases)
        };
        fill(run, filling, || 0).await?;
        let held = self.reserve(run, &queues).await?;
        let rate = held.len() as f64 / f64::from(self.every);
        run.report.load = RequestSchedule::describe(rate, self.connections);
        let meter = run.meter()?;
        let (touched, latencies) = self.touch(run, &held, rate).await?;
        let usage = meter.read()?;
        self.end(run, &held).await?;
        report(run, touched, &latencies, &usage);
        Ok(())
    }

    async fn reserve(
        &self,
        run: &ScenarioRun<'_>,
        queues: &[String],
    ) -> Result<Vec<HeldLeases>, LoadgenError> {
        let bar = run.progress("reserving", self.leases);
        let work = run
            .connections(queues.len())
            .await?
            .into_iter()
            .zip(queues)
            .map(|(mut connection, queue)| {
                let bar = &bar;
                let requests = &run.requests;
                let request =
                    native::reserve_with_lease(requests, queue, self.batch, 0, self.lease);
                let options = format!(",\"lease\":\"{}s\"", self.lease);
                async move {
                    let mut held = Vec::new();
                    loop {
                        let answer = connection.exchange(&request).await?;
                        let leases = received_leases(run, answer.body)?;
                        if leases.is_empty() {
                            return Ok::<_, LoadgenError>(held);
                        }
                        bar.inc(leases.len() as u64);
                        held.push(HeldLeases {
                            count: leases.len(),
                            touch: native::settle(requests, "touch", &leases, &options),
                            ack: native::settle(requests, "ack", &leases, ""),
                        });
                    }
                }
            });
        let held = try_join_all(work).await?;
        bar.finish_and_clear();
        Ok(held.into_iter().flatten().collect())
    }

    /// Extends all leases in turn. Returns how many were extended, and the latencies.
    async fn touch(
        &self,
        run: &ScenarioRun<'_>,
        held: &[HeldLeases],
        rate: f64,
    ) -> Result<(usize, Latencies), LoadgenError> {
        let bar = run.progress(&format!("touching for {} s", self.seconds), 0);
        let (next, touched, lost) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let latencies = RefCell::new(latencies());
        let connections = run.connections(self.connections).await?;
        let pace = RequestSchedule::new(Duration::from_secs(self.seconds.into()), rate);
        let work = connections.into_iter().map(|mut connection| {
            let (next, touched, lost, latencies, pace) =
                (&next, &touched, &lost, &latencies, &pace);
            async move {
                while let Some(begin) = pace.next().await {
                    let leases = &held[next.get() % held.len()];
                    next.set(next.get() + 1);
                    let extended = settled(&mut connection, &leases.touch, "extended").await?;
                    record_latency(latencies, begin);
                    touched.set(touched.get() + extended);
                    lost.set(lost.get() + leases.count - extended);
                }
                Ok::<_, LoadgenError>(())
            }
        });
        try_join_all(work).await?;
        bar.finish_and_clear();
        if lost.get() > 0 {
            let defect = format!("{} leases could not be extended", lost.get());
            run.jobs.borrow_mut().record_defect(defect);
        }
        Ok((touched.get(), latencies.into_inner()))
    }

    /// Acknowledges all jobs: each lease must still be held.
    async fn end(&self, run: &ScenarioRun<'_>, held: &[HeldLeases]) -> Result<(), LoadgenError> {
        let mut connection = HttpConnection::open(run.server.address, 0).await?;
        let mut lost = 0;
        for leases in held {
            lost += leases.count - settled(&mut connection, &leases.ack, native::DONE).await?;
        }
        if lost > 0 {
            let defect = format!("{lost} leases had expired although they were extended");
            run.jobs.borrow_mut().record_defect(defect);
        }
        Ok(())
    }
}

/// Reads the leases of a reserve answer, and records their jobs.
fn received_leases(run: &ScenarioRun<'_>, body: &[u8]) -> Result<Vec<String>, LoadgenError> {
    let received_us = now_us();
    let jobs = native::reserved(body)?;
    let mut tracker = run.jobs.borrow_mut();
    for job in &jobs {
        match job.label().zip(created_ms(job.id)) {
            Some((label, created_ms)) => {
                tracker.record_delivered(&DeliveredJob::new(label, created_ms, received_us));
            }
            None => tracker.record_foreign(),
        }
    }
    Ok(jobs.iter().map(|job| job.lease.to_owned()).collect())
}

/// Sends a request about leases. Returns how many have this outcome.
async fn settled(
    connection: &mut HttpConnection,
    request: &[u8],
    outcome: &str,
) -> Result<usize, LoadgenError> {
    let answer = connection.exchange(request).await?;
    let outcomes = native::outcomes("settling leases", answer.status, answer.body)?;
    Ok(outcomes.iter().filter(|it| it.outcome == outcome).count())
}

fn report(run: &mut ScenarioRun<'_>, touched: usize, latencies: &Latencies, usage: &CpuUsage) {
    let redis: Vec<String> = run
        .server
        .redis_process_names()
        .map(str::to_owned)
        .collect();
    let report = &mut run.report;
    report.figure("touch", touched as f64 / usage.seconds, "leases/s");
    report.latency("touch latency", latencies, &[]);
    for (name, cpu) in &usage.processes {
        let share = cpu / usage.seconds * 100.0;
        let what = format!("CPU of {name}");
        if redis.contains(name) {
            report.figure_with_goal(what, share, "% of a core", REDIS_GOAL);
        } else {
            report.figure(what, share, "% of a core");
        }
    }
    report.cpu("touch", usage, touched as f64, latencies.len() as f64);
}
