//! One run of a handler.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::mpsc::Sender;
use tracing::Instrument;
use tracing::field::Empty;

use super::data::DataMap;
use super::fail::Fail;
use super::job::Job;
use super::leases::{HeldLease, LeaseTable};
use super::service::JobService;
use super::settle::{EndedRun, HandlerEnd};

/// The state that all runs of a worker share.
#[derive(Debug)]
pub(super) struct RunContext {
    pub(super) service: JobService,
    pub(super) data: Arc<DataMap>,
    pub(super) leases: Arc<LeaseTable>,
    pub(super) ends: Sender<EndedRun>,
    pub(super) max_run: Option<Duration>,
}

impl RunContext {
    /// Reports the end of a job that is in the table.
    async fn report(&self, number: u64, end: HandlerEnd) {
        // The job stays in the table while there is no room, so that its lease is extended, and a stop gives it back.
        let Ok(room) = self.ends.reserve().await else {
            return;
        };
        match self.leases.remove(number) {
            Some(lease) => room.send(EndedRun::new(&lease, end)),
            None => tracing::debug!("the end of a job whose lease is lost is not reported"),
        }
    }

    /// Gives back a job whose handler does not run.
    pub(super) async fn give_back(&self, lease: &HeldLease) {
        // The receiver is closed only after all jobs are given back.
        drop(
            self.ends
                .send(EndedRun::new(lease, HandlerEnd::Released))
                .await,
        );
    }
}

/// Runs the handler of a job that is in the table of leases under this number, and reports the end.
pub(super) async fn run_job(context: Arc<RunContext>, job: Job, number: u64) {
    let span = job_span(&job);
    let end = run(&context, job).instrument(span).await;
    context.report(number, end).await;
}

async fn run(context: &RunContext, job: Job) -> HandlerEnd {
    // The block makes a panic of the call itself one of the future.
    let running = async {
        let running = context.service.run(job);
        match context.max_run {
            None => running.await,
            Some(limit) => tokio::time::timeout(limit, running)
                .await
                .unwrap_or_else(|_| {
                    let error = format!("the handler did not end within {limit:?}");
                    Err(Fail::retry(error))
                }),
        }
    };
    match AssertUnwindSafe(running).catch_unwind().await {
        Ok(Ok(reply)) => HandlerEnd::Done(reply),
        Ok(Err(fail)) => {
            tracing::debug!("the job is not done: {}", fail.error());
            HandlerEnd::Failed(fail)
        }
        Err(panic) => {
            let fail = Fail::retry(format!("the handler panicked: {}", panic_text(&*panic)));
            tracing::error!("{}", fail.error());
            // The value of a panic may panic when it is dropped.
            let _ = std::panic::catch_unwind(AssertUnwindSafe(|| drop(panic)));
            HandlerEnd::Failed(fail)
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no text")
}

/// A span with the names of OpenTelemetry for consumers of messages.
fn job_span(job: &Job) -> tracing::Span {
    let span = tracing::info_span!(
        "process",
        otel.kind = "consumer",
        messaging.system = "tidegate",
        messaging.operation.name = "process",
        messaging.operation.type = "process",
        messaging.destination.name = job.queue(),
        messaging.message.id = %job.id(),
        messaging.message.delivery_attempt = job.attempt(),
        parent.traceparent = Empty,
        link.traceparent = Empty,
    );
    if let Some(delivery) = job.delivery_span() {
        span.record("parent.traceparent", delivery);
        #[cfg(feature = "opentelemetry")]
        crate::traces::set_parent(&span, delivery);
    }
    if let Some(trace_parent) = job.trace_parent() {
        span.record("link.traceparent", trace_parent);
        #[cfg(feature = "opentelemetry")]
        crate::traces::link(&span, trace_parent);
    }
    span
}
