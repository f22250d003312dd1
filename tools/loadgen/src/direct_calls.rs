//! Calls of the store without an HTTP server between: the same scripts, and the limit of any server.

use std::cell::{Cell, RefCell};

use bytes::Bytes;
use tidegate_core::v1::consume::Outcome;
use tidegate_core::{JobId, NewJob, QueueKey};
use tidegate_store::{AckRequest, Claim, Store, StoreConfig};

use crate::body::JobLabel;
use crate::clock::now_us;
use crate::error::LoadgenError;
use crate::job_tracker::{DeliveredJob, TTR_SECONDS};
use crate::run::ScenarioRun;

/// One queue of a run, used through the store.
pub(crate) struct DirectCalls<'a> {
    run: &'a ScenarioRun<'a>,
    store: &'a Store,
    queue: QueueKey,
    body_bytes: usize,
    /// Jobs that are still to be published.
    left: Cell<u64>,
    leased: RefCell<Vec<JobId>>,
}

/// Connects to the Redis of the measured server.
///
/// # Errors
/// No Redis was named, or it is unreachable.
pub(crate) async fn connect(run: &ScenarioRun<'_>) -> Result<Store, LoadgenError> {
    let url = run.server.redis_url.clone().ok_or_else(|| {
        let scenario = &run.report.scenario;
        LoadgenError::Usage(format!("{scenario} calls Redis directly: give --redis URL"))
    })?;
    let store = Store::connect(&StoreConfig::new(url)).await;
    store.map_err(store_error)
}

impl<'a> DirectCalls<'a> {
    /// Calls for this many jobs of a queue.
    pub(crate) fn new(
        run: &'a ScenarioRun<'a>,
        store: &'a Store,
        queue: &str,
        jobs: u64,
        body_bytes: usize,
    ) -> Result<Self, LoadgenError> {
        let name = format!("{}/{queue}", run.server.namespace);
        let queue = QueueKey::try_from(name.as_str());
        Ok(Self {
            run,
            store,
            queue: queue.map_err(|error| LoadgenError::Usage(error.to_string()))?,
            body_bytes,
            left: Cell::new(jobs),
            leased: RefCell::default(),
        })
    }

    /// Publishes up to `most` of the remaining jobs. Returns their number.
    pub(crate) async fn publish(&self, most: u64) -> Result<u64, LoadgenError> {
        let count = self.left.get().min(most);
        self.left.set(self.left.get() - count);
        let label = |_| self.run.jobs.borrow_mut().next_label(0);
        let jobs: Vec<NewJob> = (0..count)
            .map(|number| new_job(label(number), self.body_bytes))
            .collect();
        if count > 0 {
            let published = self.store.publish(&self.queue, &jobs, None).await;
            published.map_err(store_error)?;
            self.run.jobs.borrow_mut().record_published(count);
        }
        Ok(count)
    }

    /// Leases up to `claims` times `count` jobs, as one call for so many consumers. Returns the number of jobs.
    pub(crate) async fn reserve(&self, claims: usize, count: usize) -> Result<u64, LoadgenError> {
        let count = u16::try_from(count).unwrap_or(u16::MAX);
        let claims = vec![Claim::new(count, u64::from(TTR_SECONDS) * 1000); claims];
        let reserved = self.store.reserve(&self.queue, &claims).await;
        let reserved = reserved.map_err(store_error)?;
        let received_us = now_us();
        let mut found = 0;
        for job in reserved.jobs.into_iter().flatten() {
            found += 1;
            self.leased.borrow_mut().push(job.id);
            let mut jobs = self.run.jobs.borrow_mut();
            match JobLabel::parse(&job.body) {
                Some(label) => jobs.record_delivered(&DeliveredJob::new(
                    label,
                    job.id.created_at_ms(),
                    received_us,
                )),
                None => jobs.record_foreign(),
            }
        }
        Ok(found)
    }

    /// Acknowledges up to `most` of the leased jobs. Returns their number.
    pub(crate) async fn ack(&self, most: usize) -> Result<u64, LoadgenError> {
        let requests: Vec<AckRequest> = {
            let mut leased = self.leased.borrow_mut();
            let rest = leased.len().saturating_sub(most);
            let ids = leased.drain(rest..);
            ids.map(AckRequest::from).collect()
        };
        if requests.is_empty() {
            return Ok(0);
        }
        let acked = self.store.ack_all(&self.queue, &requests, 0).await;
        for (request, acked) in requests.iter().zip(acked.map_err(store_error)?) {
            if let Outcome::Gone | Outcome::Lost = acked.outcome {
                let defect = format!("job {} was gone before its ack", request.id);
                self.run.jobs.borrow_mut().record_defect(defect);
            }
        }
        Ok(requests.len() as u64)
    }
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

fn store_error(error: impl std::fmt::Display) -> LoadgenError {
    LoadgenError::Store(error.to_string())
}
