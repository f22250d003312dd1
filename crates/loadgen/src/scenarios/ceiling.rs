use std::cell::{Cell, RefCell};

use bytes::Bytes;
use clap::Args;
use futures_util::future::try_join_all;
use tidegate_core::{JobId, NewJob, QueueKey};
use tidegate_store::{Acked, Claim, Store, StoreConfig};

use crate::Error;
use crate::body::Label;
use crate::clock::now_us;
use crate::crew::{BULK, TAKE};
use crate::ledger::{Delivered, TTR_SECONDS};
use crate::run::Run;

/// The flags of `ceiling`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Calls in flight over one connection
    #[arg(long, default_value_t = 64)]
    in_flight: usize,
    /// Jobs for each step
    #[arg(long, default_value_t = 200_000)]
    jobs: u64,
    /// Bytes of a job's body, at least 30
    #[arg(long, default_value_t = 100)]
    body_bytes: usize,
}

/// Both ways to do a job: one a call, and as many a call as the wire allows.
struct Batch {
    publish: u64,
    reserve: usize,
}

impl Options {
    pub(crate) async fn run(&self, run: &mut Run<'_>) -> Result<(), Error> {
        run.report.load = format!(
            "closed loop, {} calls in flight on one connection",
            self.in_flight
        );
        run.report.parameter("jobs", self.jobs);
        run.report.parameter("body bytes", self.body_bytes);
        let url = run.server.redis_url.clone();
        let url = url.ok_or_else(|| {
            Error::Usage("ceiling speaks to Redis itself: give --redis URL".to_owned())
        })?;
        let store = Store::connect(&StoreConfig::new(url))
            .await
            .map_err(store_error)?;
        for (what, batch) in [
            (
                "single",
                Batch {
                    publish: 1,
                    reserve: 1,
                },
            ),
            (
                "bulk",
                Batch {
                    publish: BULK,
                    reserve: TAKE,
                },
            ),
        ] {
            let queue = queue_key(&run.server.namespace, &run.queue(what))?;
            self.step(run, &store, &queue, what, &batch).await?;
        }
        Ok(())
    }

    async fn step(
        &self,
        run: &mut Run<'_>,
        store: &Store,
        queue: &QueueKey,
        what: &str,
        batch: &Batch,
    ) -> Result<(), Error> {
        let jobs = self.jobs as f64;
        let mut all = 0.0;
        let ids = RefCell::new(Vec::new());
        for part in ["publish", "consume", "ack"] {
            let bar = run.progress(&format!("{what}: {part}"), self.jobs);
            let left = Cell::new(self.jobs);
            let meter = run.meter()?;
            let here = &*run;
            let work = (0..self.in_flight).map(|_| {
                let (left, ids, bar) = (&left, &ids, &bar);
                async move {
                    loop {
                        let done = match part {
                            "publish" => {
                                self.publish(here, store, queue, left, batch.publish)
                                    .await?
                            }
                            "consume" => reserve(here, store, queue, ids, batch.reserve).await?,
                            _ => ack(here, store, queue, ids).await?,
                        };
                        bar.inc(done);
                        if done == 0 {
                            return Ok::<_, Error>(());
                        }
                    }
                }
            });
            try_join_all(work).await?;
            let usage = meter.read()?;
            bar.finish_and_clear();
            all += usage.seconds;
            run.report
                .figure(format!("{what} {part}"), jobs / usage.seconds, "jobs/s");
            run.report
                .cpu(&format!("{what} {part}"), &usage, jobs, jobs);
        }
        run.report.figure(
            format!("{what} publish + consume + ack"),
            jobs / all,
            "jobs/s",
        );
        Ok(())
    }

    /// Publishes the next jobs; answers how many.
    async fn publish(
        &self,
        run: &Run<'_>,
        store: &Store,
        queue: &QueueKey,
        left: &Cell<u64>,
        most: u64,
    ) -> Result<u64, Error> {
        let count = left.get().min(most);
        left.set(left.get() - count);
        let jobs: Vec<NewJob> = (0..count)
            .map(|_| new_job(run.ledger.borrow_mut().label(0), self.body_bytes))
            .collect();
        if count > 0 {
            store
                .publish(queue, &jobs, None)
                .await
                .map_err(store_error)?;
            run.ledger.borrow_mut().published(count);
        }
        Ok(count)
    }
}

async fn reserve(
    run: &Run<'_>,
    store: &Store,
    queue: &QueueKey,
    ids: &RefCell<Vec<JobId>>,
    count: usize,
) -> Result<u64, Error> {
    let claim = Claim {
        count: u16::try_from(count).unwrap_or(u16::MAX),
        ttr_ms: u64::from(TTR_SECONDS) * 1000,
    };
    let reserved = store.reserve(queue, &[claim]).await.map_err(store_error)?;
    let received_us = now_us();
    let mut found = 0;
    for job in reserved.jobs.into_iter().flatten() {
        found += 1;
        ids.borrow_mut().push(job.id);
        match Label::parse(&job.body) {
            Some(label) => run.ledger.borrow_mut().delivered(&Delivered {
                label,
                created_ms: job.id.created_at_ms(),
                received_us,
            }),
            None => run.ledger.borrow_mut().foreign(),
        }
    }
    Ok(found)
}

async fn ack(
    run: &Run<'_>,
    store: &Store,
    queue: &QueueKey,
    ids: &RefCell<Vec<JobId>>,
) -> Result<u64, Error> {
    let Some(id) = ids.borrow_mut().pop() else {
        return Ok(0);
    };
    match store.ack(queue, id, None).await.map_err(store_error)? {
        Acked::Done { .. } => {}
        Acked::AlreadyGone | Acked::Lost => {
            run.ledger
                .borrow_mut()
                .defect(format!("job {id} was gone before its ack"));
        }
    }
    Ok(1)
}

fn new_job(label: Label, bytes: usize) -> NewJob {
    let mut body = Vec::with_capacity(bytes);
    label.write(&mut body, bytes);
    NewJob {
        body: Bytes::from(body),
        attributes: Vec::new(),
        delay_ms: 0,
        ttl_ms: 0,
        tries: 1,
        versioned_id: false,
    }
}

fn queue_key(namespace: &str, queue: &str) -> Result<QueueKey, Error> {
    let bad = |error: tidegate_core::InvalidName| Error::Usage(error.to_string());
    QueueKey::try_from(format!("{namespace}/{queue}").as_str()).map_err(bad)
}

fn store_error(error: impl std::fmt::Display) -> Error {
    Error::Store(error.to_string())
}
