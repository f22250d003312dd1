//! A queue of a Tidegate, over its native API.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tidegate::api::consume::{AckItem, FailItem, LeasedJobView, QueueChoice, ReserveBody};
use tidegate::api::relay::{TidegateSourceConfig, worker_name};
use tidegate::api::values::{DurationMs, JobPayload, LeaseText, MaxJobs, WorkerNameText};
use tidegate::{Client, Error, QueueName};
use tidegate_daemon::traces::TraceParent;
use tokio::time::Instant;

use super::{FailedDelivery, RelaySource, SourceError, SourceJobs};
use crate::job::{RelayJob, SourceReceipt};

/// How long a call waits for jobs. Shorter than the idle limits of proxies.
const WAIT: Duration = Duration::from_secs(20);

/// The most jobs that one call reserves, and the most that one settles.
const RESERVE_MAX: u64 = 256;

/// A queue of a Tidegate.
pub(crate) struct TidegateSource {
    client: Client,
    queue: QueueName,
    lease: Duration,
    /// The name with which the relay is listed among the workers of the namespace.
    worker: Option<WorkerNameText>,
}

impl From<Error> for SourceError {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

fn lease(receipt: SourceReceipt) -> Result<LeaseText, SourceError> {
    LeaseText::try_from(receipt.0).map_err(|error| SourceError(error.to_string()))
}

impl TidegateSource {
    /// The queue, whose jobs the relay `name` holds for this time. The name of a stored relay begins with its
    /// namespace.
    ///
    /// # Errors
    /// A setting is missing or not valid; the error begins with its name.
    pub(crate) fn new(
        name: &str,
        config: &TidegateSourceConfig,
        lease: Duration,
    ) -> Result<Self, String> {
        let name = name.rsplit('/').next().unwrap_or_default();
        let queue = config
            .queue
            .parse()
            .map_err(|error| format!("queue: {error}"))?;
        let client = Client::builder(&config.url)
            .key(config.api_key.as_str())
            .namespace(&config.namespace)
            .build();
        let client = client.map_err(|error| format!("url, namespace, api_key: {error}"))?;
        Ok(Self {
            client,
            queue,
            lease,
            worker: worker_name(name).parse().ok(),
        })
    }

    async fn reserve_now(&self, max_jobs: usize) -> Result<SourceJobs, SourceError> {
        let max_jobs = u64::try_from(max_jobs)
            .unwrap_or(RESERVE_MAX)
            .min(RESERVE_MAX);
        let body = ReserveBody {
            max_jobs: MaxJobs::try_from(max_jobs).unwrap_or_default(),
            wait: DurationMs::try_from(WAIT).unwrap_or_default(),
            lease: DurationMs::try_from(self.lease).ok(),
            worker: self.worker.clone(),
            ..ReserveBody::new(vec![QueueChoice::from(self.queue.clone())])
        };
        let answer = self.client.reserve(&body).await?;
        // A second for the answer.
        let held_until = Instant::now() + self.lease.saturating_sub(Duration::from_secs(1));
        let jobs = answer.jobs.into_iter();
        Ok(jobs.map(|job| relay_job(job, held_until)).collect())
    }
}

/// The id that travels. A job with a key may have been replaced while it ran, and then runs again: if the id were the
/// same, the sink would take the new version for a repetition, and drop it. So it has the number of attempts before it
/// that neither failed nor lost their worker. Jobs that were given back count, too, since nothing tells them apart: at
/// worst, a sink does not recognise a repetition.
fn travelling_id(job: &LeasedJobView) -> String {
    let others = (job.attempt.saturating_sub(1))
        .saturating_sub(job.failures)
        .saturating_sub(job.losses);
    if job.key.is_none() || others == 0 {
        return job.id.to_string();
    }
    format!("{}-{others}", job.id)
}

fn relay_job(job: LeasedJobView, held_until: Instant) -> Result<RelayJob, SourceError> {
    let id = travelling_id(&job);
    let payload = JobPayload::from_fields(job.payload, job.payload_base64, Some(job.content_type));
    let payload = payload.map_err(|error| SourceError(format!("job {}: {error}", job.id)))?;
    Ok(RelayJob {
        id,
        receipt: SourceReceipt(job.lease.into()),
        payload: payload.bytes.into(),
        content_type: payload.content_type.as_str().to_owned(),
        attributes: job.attributes.0,
        delivery: job
            .traceparent
            .and_then(|text| TraceParent::read_sampled(&text)),
        span: None,
        held_until,
        expires_at: None,
        deliveries_left: None,
    })
}

impl RelaySource for TidegateSource {
    fn can_release(&self) -> bool {
        true
    }

    fn reserve(&self, max_jobs: usize) -> BoxFuture<'_, Result<SourceJobs, SourceError>> {
        Box::pin(self.reserve_now(max_jobs))
    }

    fn ack(&self, receipts: Vec<SourceReceipt>) -> BoxFuture<'_, Result<(), SourceError>> {
        Box::pin(async {
            let items = receipts
                .into_iter()
                .map(|receipt| lease(receipt).map(AckItem::from));
            self.client.ack(items.collect::<Result<_, _>>()?).await?;
            Ok(())
        })
    }

    fn fail(&self, failed: Vec<FailedDelivery>) -> BoxFuture<'_, Result<(), SourceError>> {
        Box::pin(async {
            let items = failed.into_iter().map(|failed| {
                Ok(FailItem {
                    lease: lease(failed.receipt)?,
                    error: failed.error.into(),
                    retry_in: failed
                        .retry_in
                        .and_then(|delay| DurationMs::try_from(delay).ok())
                        .filter(|_| !failed.is_permanent),
                    dead: failed.is_permanent,
                })
            });
            self.client
                .fail(items.collect::<Result<_, SourceError>>()?)
                .await?;
            Ok(())
        })
    }

    fn release(
        &self,
        receipts: Vec<SourceReceipt>,
        delay: Duration,
    ) -> BoxFuture<'_, Result<(), SourceError>> {
        Box::pin(async move {
            let leases = receipts.into_iter().map(lease).collect::<Result<_, _>>()?;
            self.client.release(leases, delay).await?;
            Ok(())
        })
    }
}
