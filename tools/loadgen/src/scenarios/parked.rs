use std::cell::{Cell, RefCell};
use std::time::Duration;

use clap::Args;
use futures_util::future::{Either, select, try_join_all};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::clock::now_us;
use crate::error::LoadgenError;
use crate::http::HttpConnection;
use crate::load_clients::{LoadConsumer, publish_one};
use crate::report::{Goal, latencies};
use crate::request_schedule::RequestSchedule;
use crate::run::ScenarioRun;
use crate::wire::publish_request::PublishRequest;

const MEMORY_GOAL: Goal = Goal::AtMost(8.0);
const CONNECTIONS_GOAL: Goal = Goal::AtMost(8.0);
const CPU_GOAL: Goal = Goal::AtMost(2.0);
const WAKE_GOALS: [(f64, f64); 1] = [(0.99, 20.0)];
/// Name of the process whose memory is measured.
const API: &str = "api";
const TIMEOUT_SECONDS: u32 = 3600;
const OPENED_TOGETHER: usize = 64;
const SPARE_FILES: u64 = 50;
const PATIENCE: Duration = Duration::from_secs(20);

/// The flags of `parked`.
#[derive(Debug, Clone, Args)]
pub struct ParkedOptions {
    /// Number of waiting consumers
    #[arg(long, default_value_t = 10_000)]
    waiters: usize,
    /// Number of queues that they wait for
    #[arg(long, default_value_t = 100)]
    queues: usize,
    /// Seconds to measure while they wait
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Jobs to publish, which wake some of them; at most half of --waiters
    #[arg(long, default_value_t = 1000)]
    wakes: u64,
    /// Jobs to publish per second
    #[arg(long, default_value_t = 100.0)]
    rate: f64,
}

impl ParkedOptions {
    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        run.report.load = format!(
            "{} long polls; open loop, {} jobs/s wake some",
            self.waiters, self.rate
        );
        run.report.parameter("waiters", self.waiters);
        run.report.parameter("queues", self.queues);
        run.report.parameter("wakes", self.wakes);
        if self.wakes as usize > self.waiters / 2 {
            return Err(LoadgenError::Usage(
                "--wakes may be at most half of --waiters".to_owned(),
            ));
        }
        raise_file_limit(self.waiters as u64 + SPARE_FILES)?;
        let queues = run.queues("parked", self.queues);
        let resident = |run: &ScenarioRun<'_>| match run.server.process(API) {
            Some(process) => process.resident_bytes().map(Some),
            None => Ok(None),
        };
        let before = resident(run)?;
        let here = &*run;
        let waiters = self.park(here, &queues).await?;
        here.pause("waiting for the server to settle", Duration::from_secs(2))
            .await;
        let meter = here.meter()?;
        here.pause("measuring", Duration::from_secs_f64(self.seconds))
            .await;
        let usage = meter.read()?;
        let after = resident(here)?;
        let connections = match &here.server.redis_url {
            Some(_) => Some(
                here.server
                    .redis("parked")?
                    .number("clients", "connected_clients")?
                    - 1.0,
            ),
            None => None,
        };
        let latencies = self.wake(here, waiters, &queues).await?;
        let report = &mut run.report;
        if let Some((before, after)) = before.zip(after) {
            let each = (after - before) / 1024.0 / self.waiters as f64;
            report.figure_with_goal("RSS of api per waiter", each, "KiB", MEMORY_GOAL);
        }
        if let Some(connections) = connections {
            report.figure_with_goal("Redis connections", connections, "", CONNECTIONS_GOAL);
        }
        for (name, cpu) in &usage.processes {
            let percent = cpu / usage.seconds * 100.0;
            let name = format!("waiting: CPU of {name}");
            if name.ends_with(API) {
                report.figure_with_goal(name, percent, "% of a core", CPU_GOAL);
            } else {
                report.figure(name, percent, "% of a core");
            }
        }
        report.latency("wake", &latencies.into_inner(), &WAKE_GOALS);
        Ok(())
    }

    /// Opens the long polls, 64 at a time.
    async fn park<'a>(
        &self,
        run: &'a ScenarioRun<'a>,
        queues: &[String],
    ) -> Result<Vec<LoadConsumer<'a>>, LoadgenError> {
        let bar = run.progress("parking consumers", self.waiters as u64);
        let mut parked = Vec::with_capacity(self.waiters);
        while parked.len() < self.waiters {
            let end = (parked.len() + OPENED_TOGETHER).min(self.waiters);
            let opening = (parked.len()..end).map(|number| async move {
                let connection = HttpConnection::open(run.server.address, number).await?;
                let queue = &queues[number % queues.len()];
                let mut consumer = LoadConsumer::new(run, connection, queue, 1, TIMEOUT_SECONDS);
                consumer.send_request().await?;
                Ok::<_, LoadgenError>(consumer)
            });
            parked.extend(try_join_all(opening).await?);
            bar.set_position(parked.len() as u64);
        }
        bar.finish_and_clear();
        Ok(parked)
    }

    /// Publishes jobs to one queue after another, and measures the time from the publish of each to
    /// its arrival.
    async fn wake(
        &self,
        run: &ScenarioRun<'_>,
        waiters: Vec<LoadConsumer<'_>>,
        queues: &[String],
    ) -> Result<RefCell<crate::report::Latencies>, LoadgenError> {
        let latencies = RefCell::new(latencies());
        // Indexed by job number; jobs of a run are numbered from 0.
        let sent = RefCell::new(Vec::new());
        let acknowledged = Cell::new(0);
        let waiting = waiters.into_iter().map(|mut waiter| {
            let (latencies, sent, acknowledged) = (&latencies, &sent, &acknowledged);
            async move {
                waiter
                    .receive(|job| {
                        let sent: &Vec<u64> = &sent.borrow();
                        let begin = sent.get(job.label.number as usize).copied();
                        let us = job.received_us.saturating_sub(begin.unwrap_or_default());
                        latencies.borrow_mut().saturating_record(us);
                    })
                    .await?;
                acknowledged.set(acknowledged.get() + waiter.ack().await? as u64);
                Ok::<_, LoadgenError>(())
            }
        });
        let waking = async {
            let mut connection = run.connections(1).await?.remove(0);
            let mut request = PublishRequest::new(run.requests.clone(), 100);
            let pace = RequestSchedule::new(
                Duration::from_secs_f64(self.wakes as f64 / self.rate),
                self.rate,
            );
            while pace.next().await.is_some() {
                let number = sent.borrow().len();
                sent.borrow_mut().push(now_us());
                let queue = &queues[number % queues.len()];
                publish_one(run, &mut connection, &mut request, queue, 0).await?;
            }
            let until = tokio::time::Instant::now() + PATIENCE;
            while acknowledged.get() < sent.borrow().len() as u64
                && tokio::time::Instant::now() < until
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok::<_, LoadgenError>(())
        };
        let bar = run.progress("waking some", 0);
        match select(Box::pin(waking), Box::pin(try_join_all(waiting))).await {
            Either::Left((woken, _)) => woken?,
            // Not reached: there are more waiters than jobs, so some never get an answer.
            Either::Right((served, _)) => drop(served?),
        }
        bar.finish_and_clear();
        Ok(latencies)
    }
}

/// Raises the limit of open files to `needed`: each connection is an open file.
fn raise_file_limit(needed: u64) -> Result<(), LoadgenError> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let most = limit.maximum.unwrap_or(u64::MAX);
    let raised = Rlimit {
        current: Some(needed.min(most)),
        maximum: limit.maximum,
    };
    let set = setrlimit(Resource::Nofile, raised);
    if most < needed || set.is_err() {
        return Err(LoadgenError::Usage(format!(
            "this number of waiters needs {needed} open files, and the hard limit is {most}: raise it (ulimit -Hn), or lower --waiters"
        )));
    }
    Ok(())
}
