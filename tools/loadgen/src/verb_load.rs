//! A load of single jobs, verb by verb: all are published, then consumed, then acknowledged.

use std::cell::Cell;

use futures_util::future::try_join_all;

use crate::cpu::CpuUsage;
use crate::error::LoadgenError;
use crate::load_clients::{LoadConsumer, publish_one};
use crate::run::ScenarioRun;
use crate::wire::publish_request::{JobOption, PublishRequest};

pub(crate) const VERBS: [&str; 3] = ["publish", "consume", "ack"];

/// Jobs to publish to a queue, to consume and to acknowledge, one in a request.
pub(crate) struct VerbLoad<'a> {
    pub(crate) queue: &'a str,
    pub(crate) jobs: u64,
    pub(crate) connections: usize,
    pub(crate) body_bytes: usize,
    pub(crate) option: JobOption,
}

impl VerbLoad<'_> {
    /// Returns the CPU of each verb, in the order of [`VERBS`].
    pub(crate) async fn run(&self, run: &ScenarioRun<'_>) -> Result<[CpuUsage; 3], LoadgenError> {
        let left = Cell::new(self.jobs);
        let meter = run.meter()?;
        let connections = run.connections(self.connections).await?.into_iter();
        let publishing = connections.map(|mut connection| {
            let left = &left;
            async move {
                let mut request =
                    PublishRequest::with_option(run.requests.clone(), self.body_bytes, self.option);
                while take_one(left) {
                    publish_one(run, &mut connection, &mut request, self.queue, 0).await?;
                }
                Ok::<_, LoadgenError>(connection)
            }
        });
        let connections = try_join_all(publishing).await?;
        let published = meter.read()?;
        let meter = run.meter()?;
        let consuming = connections.into_iter().map(|connection| {
            let mut consumer = LoadConsumer::new(run, connection, self.queue, 1, 0);
            async move {
                while consumer.consume(|_| ()).await? > 0 {}
                Ok::<_, LoadgenError>(consumer)
            }
        });
        let consumers = try_join_all(consuming).await?;
        let consumed = meter.read()?;
        let meter = run.meter()?;
        let acking = consumers
            .into_iter()
            .map(|mut consumer| async move { consumer.ack().await });
        try_join_all(acking).await?;
        Ok([published, consumed, meter.read()?])
    }
}

/// Takes one of the requests that are left, if there is any.
pub(crate) fn take_one(left: &Cell<u64>) -> bool {
    let there = left.get();
    left.set(there.saturating_sub(1));
    there > 0
}
