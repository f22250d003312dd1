//! Steps of scenarios: fill queues, publish at a rate, consume, drain queues.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;

use crate::clock::{created_ms, now_us};
use crate::error::LoadgenError;
use crate::http::HttpConnection;
use crate::job_tracker::DeliveredJob;
use crate::report::{Latencies, latencies};
use crate::request_schedule::RequestSchedule;
use crate::run::ScenarioRun;
use crate::wire::ack_requests::AckRequests;
use crate::wire::protocol::{BULK, Wire};
use crate::wire::publish_request::{JobOption, PublishRequest};

const FILLERS: usize = 8;
const DRAINERS: usize = 8;
/// How long to wait for the next job before the rest count as lost.
const PATIENCE: Duration = Duration::from_secs(20);
const POLL_SECONDS: u32 = 1;

/// Jobs to publish before something else is measured.
pub(crate) struct FillOptions<'a> {
    pub(crate) queues: &'a [String],
    pub(crate) jobs: u64,
    pub(crate) body_bytes: usize,
    /// Whether the jobs stay delayed until the run ends.
    pub(crate) is_pending: bool,
    pub(crate) connections: usize,
    pub(crate) option: JobOption,
}

impl FillOptions<'_> {
    /// Jobs of 100 bytes, published over 8 connections.
    pub(crate) const fn new(queues: &[String], jobs: u64) -> FillOptions<'_> {
        FillOptions {
            queues,
            jobs,
            body_bytes: 100,
            is_pending: false,
            connections: FILLERS,
            option: JobOption::None,
        }
    }
}

/// Publishes in bulk. `delay` returns the delay of each job in seconds, on the wire of lmstfy the delay of each bulk.
/// Returns about a hundred samples: the number of published jobs, and the seconds since the start.
pub(crate) async fn fill(
    run: &ScenarioRun<'_>,
    filling: FillOptions<'_>,
    delay: impl Fn() -> u32,
) -> Result<Vec<(f64, f64)>, LoadgenError> {
    let bar = run.progress(&format!("publishing {} jobs", filling.jobs), filling.jobs);
    let left = Cell::new(filling.jobs);
    let turn = Cell::new(0);
    let samples = RefCell::new(vec![(0.0, 0.0)]);
    let begin = Instant::now();
    let connections = run.connections(filling.connections).await?;
    let work = connections.into_iter().map(|mut connection| {
        let (left, turn, samples, delay, bar, filling) =
            (&left, &turn, &samples, &delay, &bar, &filling);
        async move {
            let mut request = PublishRequest::with_option(
                run.requests.clone(),
                filling.body_bytes,
                filling.option,
            );
            while left.get() > 0 {
                let jobs = left.get().min(BULK);
                left.set(left.get() - jobs);
                turn.set(turn.get() + 1);
                let queue = &filling.queues[turn.get() % filling.queues.len()];
                publish_bulk(run, &mut connection, &mut request, queue, jobs, delay).await?;
                if filling.is_pending {
                    run.jobs.borrow_mut().record_pending(jobs);
                } else {
                    run.jobs.borrow_mut().record_published(jobs);
                }
                bar.inc(jobs);
                let done = bar.position() as f64;
                let mut samples = samples.borrow_mut();
                let last = samples.last().map_or(0.0, |(jobs, _)| *jobs);
                if done - last >= filling.jobs as f64 / 100.0 {
                    samples.push((done, begin.elapsed().as_secs_f64()));
                }
            }
            Ok::<_, LoadgenError>(())
        }
    });
    try_join_all(work).await?;
    bar.finish_and_clear();
    Ok(samples.into_inner())
}

async fn publish_bulk(
    run: &ScenarioRun<'_>,
    connection: &mut HttpConnection,
    request: &mut PublishRequest,
    queue: &str,
    jobs: u64,
    delay: impl Fn() -> u32,
) -> Result<(), LoadgenError> {
    let wire = run.requests.wire;
    let bytes = {
        let mut tracker = run.jobs.borrow_mut();
        let of_all = (wire == Wire::Lmstfy).then(&delay);
        let labels = (0..jobs).map(|_| tracker.next_label(of_all.unwrap_or_else(&delay)));
        request.bulk(queue, labels)
    };
    let sent_us = now_us();
    let answer = connection.exchange(bytes).await?;
    let unexpected =
        || LoadgenError::unexpected("publish of several jobs", answer.status, answer.body);
    if answer.status != wire.bulk_status() {
        return Err(unexpected());
    }
    let (published, first_id) = wire.published_bulk(answer.body)?;
    if published != jobs {
        return Err(unexpected());
    }
    if let Some(created_ms) = created_ms(&first_id) {
        narrow_clock_bounds(run, created_ms, sent_us);
    }
    Ok(())
}

fn narrow_clock_bounds(run: &ScenarioRun<'_>, created_ms: u64, sent_us: u64) {
    let mut clocks = run.clocks.get();
    clocks.narrow(created_ms, sent_us, now_us());
    run.clocks.set(clocks);
}

/// Single jobs to publish.
pub(crate) struct SingleJobs<'a> {
    pub(crate) queues: &'a [String],
    pub(crate) connections: usize,
    pub(crate) body_bytes: usize,
    /// Delay of each job in seconds.
    pub(crate) delay: u32,
    pub(crate) option: JobOption,
}

/// Publishes single jobs at a pace. Returns the latencies.
pub(crate) async fn publish(
    run: &ScenarioRun<'_>,
    singles: SingleJobs<'_>,
    pace: impl FnOnce() -> RequestSchedule,
) -> Result<Latencies, LoadgenError> {
    let SingleJobs {
        queues,
        body_bytes,
        delay,
        option,
        ..
    } = singles;
    let connections = run.connections(singles.connections).await?;
    let latencies = RefCell::new(latencies());
    let turn = Cell::new(0);
    let pace = pace();
    let work = connections.into_iter().map(|mut connection| {
        let (latencies, turn, pace) = (&latencies, &turn, &pace);
        async move {
            let mut request = PublishRequest::with_option(run.requests.clone(), body_bytes, option);
            while let Some(begin) = pace.next().await {
                turn.set(turn.get() + 1);
                let queue = &queues[turn.get() % queues.len()];
                publish_one(run, &mut connection, &mut request, queue, delay).await?;
                record_latency(latencies, begin);
            }
            Ok::<_, LoadgenError>(())
        }
    });
    try_join_all(work).await?;
    Ok(latencies.into_inner())
}

pub(crate) async fn publish_one(
    run: &ScenarioRun<'_>,
    connection: &mut HttpConnection,
    request: &mut PublishRequest,
    queue: &str,
    delay: u32,
) -> Result<(), LoadgenError> {
    let label = run.jobs.borrow_mut().next_label(delay);
    let sent_us = now_us();
    let answer = connection.exchange(request.one(queue, label)).await?;
    if answer.status != 201 {
        return Err(LoadgenError::unexpected(
            "publish",
            answer.status,
            answer.body,
        ));
    }
    let id = run.requests.wire.published(answer.body)?;
    if let Some(created_ms) = created_ms(&id) {
        narrow_clock_bounds(run, created_ms, sent_us);
    }
    run.jobs.borrow_mut().record_published(1);
    Ok(())
}

pub(crate) fn record_latency(latencies: &RefCell<Latencies>, begin: Instant) {
    let us = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
    latencies.borrow_mut().saturating_record(us);
}

/// A connection that consumes jobs of one queue and acknowledges them.
pub(crate) struct LoadConsumer<'a> {
    run: &'a ScenarioRun<'a>,
    connection: HttpConnection,
    request: Vec<u8>,
    acks: AckRequests,
}

impl<'a> LoadConsumer<'a> {
    /// Consumes up to `count` jobs per request, and waits up to `timeout` seconds for the first.
    pub(crate) fn new(
        run: &'a ScenarioRun<'a>,
        connection: HttpConnection,
        queue: &str,
        count: usize,
        timeout: u32,
    ) -> Self {
        Self {
            run,
            connection,
            request: run.requests.consume(queue, count, timeout),
            acks: AckRequests::new(run.requests.clone(), queue),
        }
    }

    /// Sends one consume request, and calls `take` with each job. Returns the number of jobs.
    pub(crate) async fn consume(
        &mut self,
        take: impl FnMut(&DeliveredJob),
    ) -> Result<usize, LoadgenError> {
        self.send_request().await?;
        self.receive(take).await
    }

    /// Sends a consume request without waiting for its answer.
    pub(crate) async fn send_request(&mut self) -> Result<(), LoadgenError> {
        self.connection.send(&self.request).await
    }

    /// Receives the answer to a consume request, and calls `take` with each job. Returns the number of
    /// jobs.
    pub(crate) async fn receive(
        &mut self,
        mut take: impl FnMut(&DeliveredJob),
    ) -> Result<usize, LoadgenError> {
        let answer = self.connection.answer().await?;
        let received_us = now_us();
        match answer.status {
            200 => {}
            404 => return Ok(0),
            status => return Err(LoadgenError::unexpected("consume", status, answer.body)),
        }
        let mut tracker = self.run.jobs.borrow_mut();
        let wire = self.run.requests.wire;
        wire.consumed(answer.body, received_us, |job, handle| {
            match job {
                Some(job) => {
                    tracker.record_delivered(&job);
                    take(&job);
                }
                None => tracker.record_foreign(),
            }
            self.acks.add(handle);
        })?;
        Ok(self.acks.end_answer())
    }

    /// Acknowledges all consumed jobs. Returns their number.
    pub(crate) async fn ack(&mut self) -> Result<usize, LoadgenError> {
        self.acks.send(&mut self.connection).await
    }
}

/// Consumes and acknowledges until every outstanding job was delivered, or none arrives for 20 s. Each
/// queue has `consumers` connections.
pub(crate) async fn consume_all(
    run: &ScenarioRun<'_>,
    queues: &[String],
    consumers: usize,
    count: usize,
    take: impl Fn(&DeliveredJob),
) -> Result<(), LoadgenError> {
    let outstanding = run.jobs.borrow().outstanding();
    let bar = run.progress(&format!("consuming {outstanding} jobs"), outstanding);
    let last = Cell::new(Instant::now());
    let connections = run.connections(consumers * queues.len()).await?;
    let work = connections
        .into_iter()
        .enumerate()
        .map(|(number, connection)| {
            let (last, take, bar) = (&last, &take, &bar);
            let queue = &queues[number % queues.len()];
            let mut consumer = LoadConsumer::new(run, connection, queue, count, POLL_SECONDS);
            async move {
                while run.jobs.borrow().outstanding() > 0 && last.get().elapsed() < PATIENCE {
                    if consumer.consume(take).await? > 0 {
                        last.set(Instant::now());
                        bar.inc(consumer.ack().await? as u64);
                    }
                }
                Ok::<_, LoadgenError>(())
            }
        });
    try_join_all(work).await?;
    bar.finish_and_clear();
    Ok(())
}

/// Consumes and acknowledges all outstanding jobs as fast as possible.
pub(crate) async fn drain(run: &ScenarioRun<'_>, queues: &[String]) -> Result<(), LoadgenError> {
    let each = DRAINERS.div_ceil(queues.len());
    consume_all(
        run,
        queues,
        each,
        run.requests.wire.jobs_per_consume(),
        |_| (),
    )
    .await
}
