use std::cell::{Cell, RefCell};

use bytes::Bytes;
use clap::Args;
use futures_util::future::try_join_all;
use tidegate_core::{JobId, NewJob, QueueKey};
use tidegate_store::{AckOutcome, Claim, Store, StoreConfig};

use crate::body::JobLabel;
use crate::clock::now_us;
use crate::error::LoadgenError;
use crate::job_tracker::{DeliveredJob, TTR_SECONDS};
use crate::run::ScenarioRun;
use crate::wire::protocol::{BULK, Wire};

/// The flags of `ceiling`.
#[derive(Debug, Clone, Args)]
pub struct CeilingOptions {
    /// Calls in flight over one connection
    #[arg(long, default_value_t = 64)]
    in_flight: usize,
    /// Jobs per step
    #[arg(long, default_value_t = 200_000)]
    jobs: u64,
    /// Size of each body in bytes, at least 30
    #[arg(long, default_value_t = 100)]
    body_bytes: usize,
}

/// Jobs per call: one, or as many as the wire allows.
struct CallSizes {
    publish: u64,
    reserve: usize,
}

impl CeilingOptions {
    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        run.report.load = format!(
            "closed loop, {} calls in flight on one connection",
            self.in_flight
        );
        run.report.parameter("jobs", self.jobs);
        run.report.parameter("body bytes", self.body_bytes);
        let url = run.server.redis_url.clone();
        let url = url.ok_or_else(|| {
            LoadgenError::Usage("ceiling calls Redis directly: give --redis URL".to_owned())
        })?;
        let store = Store::connect(&StoreConfig::new(url))
            .await
            .map_err(store_error)?;
        for (what, batch) in [
            (
                "single",
                CallSizes {
                    publish: 1,
                    reserve: 1,
                },
            ),
            (
                "bulk",
                CallSizes {
                    publish: BULK,
                    reserve: Wire::Lmstfy.jobs_per_consume(),
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
        run: &mut ScenarioRun<'_>,
        store: &Store,
        queue: &QueueKey,
        what: &str,
        batch: &CallSizes,
    ) -> Result<(), LoadgenError> {
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
                            return Ok::<_, LoadgenError>(());
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

    /// Publishes up to `most` of the remaining jobs. Returns their number.
    async fn publish(
        &self,
        run: &ScenarioRun<'_>,
        store: &Store,
        queue: &QueueKey,
        left: &Cell<u64>,
        most: u64,
    ) -> Result<u64, LoadgenError> {
        let count = left.get().min(most);
        left.set(left.get() - count);
        let jobs: Vec<NewJob> = (0..count)
            .map(|_| new_job(run.jobs.borrow_mut().next_label(0), self.body_bytes))
            .collect();
        if count > 0 {
            store
                .publish(queue, &jobs, None)
                .await
                .map_err(store_error)?;
            run.jobs.borrow_mut().record_published(count);
        }
        Ok(count)
    }
}

async fn reserve(
    run: &ScenarioRun<'_>,
    store: &Store,
    queue: &QueueKey,
    ids: &RefCell<Vec<JobId>>,
    count: usize,
) -> Result<u64, LoadgenError> {
    let claim = Claim::new(
        u16::try_from(count).unwrap_or(u16::MAX),
        u64::from(TTR_SECONDS) * 1000,
    );
    let reserved = store.reserve(queue, &[claim]).await.map_err(store_error)?;
    let received_us = now_us();
    let mut found = 0;
    for job in reserved.jobs.into_iter().flatten() {
        found += 1;
        ids.borrow_mut().push(job.id);
        match JobLabel::parse(&job.body) {
            Some(label) => {
                let job = DeliveredJob::new(label, job.id.created_at_ms(), received_us);
                run.jobs.borrow_mut().record_delivered(&job);
            }
            None => run.jobs.borrow_mut().record_foreign(),
        }
    }
    Ok(found)
}

async fn ack(
    run: &ScenarioRun<'_>,
    store: &Store,
    queue: &QueueKey,
    ids: &RefCell<Vec<JobId>>,
) -> Result<u64, LoadgenError> {
    let Some(id) = ids.borrow_mut().pop() else {
        return Ok(0);
    };
    match store.ack(queue, id, None).await.map_err(store_error)? {
        AckOutcome::Done { .. } | AckOutcome::Rerun { .. } => {}
        AckOutcome::AlreadyGone | AckOutcome::Lost => {
            run.jobs
                .borrow_mut()
                .record_defect(format!("job {id} was gone before its ack"));
        }
    }
    Ok(1)
}

fn new_job(label: JobLabel, bytes: usize) -> NewJob {
    let mut body = Vec::with_capacity(bytes);
    label.write(&mut body, bytes);
    NewJob {
        body: Bytes::from(body),
        attributes: Vec::new(),
        delay_ms: 0,
        ttl_ms: 0,
        tries: 1,
        mark: false,
        native: None,
    }
}

fn queue_key(namespace: &str, queue: &str) -> Result<QueueKey, LoadgenError> {
    let bad = |error: tidegate_core::InvalidName| LoadgenError::Usage(error.to_string());
    QueueKey::try_from(format!("{namespace}/{queue}").as_str()).map_err(bad)
}

fn store_error(error: impl std::fmt::Display) -> LoadgenError {
    LoadgenError::Store(error.to_string())
}
