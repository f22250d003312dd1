//! The steps that scenarios are put together from: fill queues, publish at a pace, consume, empty queues.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;

use crate::Error;
use crate::clock::{created_ms, now_us};
use crate::http::Connection;
use crate::ledger::Delivered;
use crate::pace::Pace;
use crate::report::{Latencies, latencies};
use crate::run::Run;
use crate::wire::{self, PublishRequest};

/// Jobs in a bulk publish: the most that the wire takes.
pub(crate) const BULK: u64 = 64;
/// Jobs in a bulk consume: the most that the wire gives.
pub(crate) const TAKE: usize = 100;
const FILLERS: usize = 8;
const DRAINERS: usize = 8;
/// How long to wait for jobs that do not come.
const PATIENCE: Duration = Duration::from_secs(20);
const POLL_SECONDS: u32 = 1;

/// Jobs to be there before something else is measured.
pub(crate) struct Filling<'a> {
    pub(crate) queues: &'a [String],
    pub(crate) jobs: u64,
    pub(crate) body_bytes: usize,
    /// Whether the jobs stay where they are until the run ends.
    pub(crate) is_pending: bool,
    pub(crate) connections: usize,
}

impl Filling<'_> {
    /// Jobs of 100 bytes, by a few connections.
    pub(crate) const fn of(queues: &[String], jobs: u64) -> Filling<'_> {
        Filling {
            queues,
            jobs,
            body_bytes: 100,
            is_pending: false,
            connections: FILLERS,
        }
    }
}

/// Publishes in bulk, each bulk with the delay that `delay` tells. Answers how many were there after how
/// many seconds, about a hundred times.
pub(crate) async fn fill(
    run: &Run<'_>,
    filling: Filling<'_>,
    delay: impl Fn() -> u32,
) -> Result<Vec<(f64, f64)>, Error> {
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
            let mut request = PublishRequest::new(run.requests.clone(), filling.body_bytes);
            while left.get() > 0 {
                let jobs = left.get().min(BULK);
                left.set(left.get() - jobs);
                turn.set(turn.get() + 1);
                let queue = &filling.queues[turn.get() % filling.queues.len()];
                publish_bulk(run, &mut connection, &mut request, queue, jobs, delay()).await?;
                if filling.is_pending {
                    run.ledger.borrow_mut().published_pending(jobs);
                } else {
                    run.ledger.borrow_mut().published(jobs);
                }
                bar.inc(jobs);
                let done = bar.position() as f64;
                let mut samples = samples.borrow_mut();
                let last = samples.last().map_or(0.0, |(jobs, _)| *jobs);
                if done - last >= filling.jobs as f64 / 100.0 {
                    samples.push((done, begin.elapsed().as_secs_f64()));
                }
            }
            Ok::<_, Error>(())
        }
    });
    try_join_all(work).await?;
    bar.finish_and_clear();
    Ok(samples.into_inner())
}

async fn publish_bulk(
    run: &Run<'_>,
    connection: &mut Connection,
    request: &mut PublishRequest,
    queue: &str,
    jobs: u64,
    delay: u32,
) -> Result<(), Error> {
    let bytes = {
        let mut ledger = run.ledger.borrow_mut();
        request.bulk(queue, delay, (0..jobs).map(|_| ledger.label(delay)))
    };
    let sent_us = now_us();
    let answer = connection.exchange(bytes).await?;
    if answer.status != 201 {
        return Err(Error::unexpected(
            "bulk publish",
            answer.status,
            answer.body,
        ));
    }
    let ids = wire::published_bulk(answer.body)?;
    if ids.len() as u64 != jobs {
        return Err(Error::unexpected(
            "bulk publish",
            answer.status,
            answer.body,
        ));
    }
    if let Some(created_ms) = ids.first().and_then(|id| created_ms(id)) {
        narrow(run, created_ms, sent_us);
    }
    Ok(())
}

fn narrow(run: &Run<'_>, created_ms: u64, sent_us: u64) {
    let mut clocks = run.clocks.get();
    clocks.narrow(created_ms, sent_us, now_us());
    run.clocks.set(clocks);
}

/// Publishes single jobs at a pace, and answers the latencies.
pub(crate) async fn publish(
    run: &Run<'_>,
    queues: &[String],
    connections: usize,
    body_bytes: usize,
    delay: u32,
    pace: impl FnOnce() -> Pace,
) -> Result<Latencies, Error> {
    let connections = run.connections(connections).await?;
    let latencies = RefCell::new(latencies());
    let turn = Cell::new(0);
    let pace = pace();
    let work = connections.into_iter().map(|mut connection| {
        let (latencies, turn, pace) = (&latencies, &turn, &pace);
        async move {
            let mut request = PublishRequest::new(run.requests.clone(), body_bytes);
            while let Some(begin) = pace.next().await {
                turn.set(turn.get() + 1);
                let queue = &queues[turn.get() % queues.len()];
                publish_one(run, &mut connection, &mut request, queue, delay).await?;
                record(latencies, begin);
            }
            Ok::<_, Error>(())
        }
    });
    try_join_all(work).await?;
    Ok(latencies.into_inner())
}

/// Publishes one job.
pub(crate) async fn publish_one(
    run: &Run<'_>,
    connection: &mut Connection,
    request: &mut PublishRequest,
    queue: &str,
    delay: u32,
) -> Result<(), Error> {
    let label = run.ledger.borrow_mut().label(delay);
    let sent_us = now_us();
    let answer = connection.exchange(request.one(queue, label)).await?;
    if answer.status != 201 {
        return Err(Error::unexpected("publish", answer.status, answer.body));
    }
    let id = wire::published(answer.body)?;
    if let Some(created_ms) = created_ms(&id) {
        narrow(run, created_ms, sent_us);
    }
    run.ledger.borrow_mut().published(1);
    Ok(())
}

pub(crate) fn record(latencies: &RefCell<Latencies>, begin: Instant) {
    let us = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
    latencies.borrow_mut().saturating_record(us);
}

/// A connection that takes jobs of one queue and acknowledges them.
pub(crate) struct Consumer<'a> {
    run: &'a Run<'a>,
    connection: Connection,
    queue: String,
    request: Vec<u8>,
    /// The acknowledgements of what was taken.
    acks: Vec<u8>,
    /// For each answer: where its acknowledgements end, and how many they are.
    batches: Vec<(usize, usize)>,
}

impl<'a> Consumer<'a> {
    /// Takes up to `count` jobs at a time, waiting up to `timeout` seconds for the first.
    pub(crate) fn new(
        run: &'a Run<'a>,
        connection: Connection,
        queue: &str,
        count: usize,
        timeout: u32,
    ) -> Self {
        Self {
            run,
            connection,
            queue: queue.to_owned(),
            request: run.requests.consume(queue, count, timeout),
            acks: Vec::new(),
            batches: Vec::new(),
        }
    }

    /// Asks once; calls `take` with each job. How many there were.
    pub(crate) async fn consume(&mut self, take: impl FnMut(&Delivered)) -> Result<usize, Error> {
        self.ask().await?;
        self.receive(take).await
    }

    /// Asks, and leaves it at that.
    pub(crate) async fn ask(&mut self) -> Result<(), Error> {
        self.connection.send(&self.request).await
    }

    /// What was asked for.
    pub(crate) async fn receive(
        &mut self,
        mut take: impl FnMut(&Delivered),
    ) -> Result<usize, Error> {
        let answer = self.connection.answer().await?;
        let received_us = now_us();
        match answer.status {
            200 => {}
            404 => return Ok(0),
            status => return Err(Error::unexpected("consume", status, answer.body)),
        }
        let mut ledger = self.run.ledger.borrow_mut();
        let mut taken = 0;
        wire::consumed(answer.body, received_us, |job, id| {
            match job {
                Some(job) => {
                    ledger.delivered(&job);
                    take(&job);
                }
                None => ledger.foreign(),
            }
            self.run.requests.write_ack(&mut self.acks, &self.queue, id);
            taken += 1;
        })?;
        self.batches.push((self.acks.len(), taken));
        Ok(taken)
    }

    /// Acknowledges all that was taken, one request a job; those of the jobs of one answer follow each
    /// other without waiting. How many there were.
    pub(crate) async fn ack(&mut self) -> Result<usize, Error> {
        let (mut begin, mut all) = (0, 0);
        for (end, count) in self.batches.drain(..) {
            self.connection.send(&self.acks[begin..end]).await?;
            for _ in 0..count {
                let answer = self.connection.answer().await?;
                if answer.status != 204 {
                    return Err(Error::unexpected("ack", answer.status, answer.body));
                }
            }
            begin = end;
            all += count;
        }
        self.acks.clear();
        Ok(all)
    }
}

/// Consumes and acknowledges until every job that is due has come back, or none comes any more. Each queue
/// has `consumers` connections.
pub(crate) async fn consume_all(
    run: &Run<'_>,
    queues: &[String],
    consumers: usize,
    count: usize,
    take: impl Fn(&Delivered),
) -> Result<(), Error> {
    let outstanding = run.ledger.borrow().outstanding();
    let bar = run.progress(&format!("consuming {outstanding} jobs"), outstanding);
    let last = Cell::new(Instant::now());
    let connections = run.connections(consumers * queues.len()).await?;
    let work = connections
        .into_iter()
        .enumerate()
        .map(|(number, connection)| {
            let (last, take, bar) = (&last, &take, &bar);
            let queue = &queues[number % queues.len()];
            let mut consumer = Consumer::new(run, connection, queue, count, POLL_SECONDS);
            async move {
                while run.ledger.borrow().outstanding() > 0 && last.get().elapsed() < PATIENCE {
                    if consumer.consume(take).await? > 0 {
                        last.set(Instant::now());
                        bar.inc(consumer.ack().await? as u64);
                    }
                }
                Ok::<_, Error>(())
            }
        });
    try_join_all(work).await?;
    bar.finish_and_clear();
    Ok(())
}

/// Consumes and acknowledges what is there, as fast as that goes.
pub(crate) async fn drain(run: &Run<'_>, queues: &[String]) -> Result<(), Error> {
    let each = DRAINERS.div_ceil(queues.len());
    consume_all(run, queues, each, TAKE, |_| ()).await
}
