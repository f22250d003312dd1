//! Workers: run handlers for the jobs of queues.

mod data;
mod execution;
mod fail;
mod from_job;
mod handler;
mod heartbeats;
mod job;
mod leases;
mod reply;
mod reserve_loop;
mod run;
mod service;
mod settle;
mod settle_call;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::time::Duration;

use tidegate_core::QueueName;
use tidegate_core::v1::consume::QueueChoice;
use tidegate_core::v1::values::{DurationMs, QueueOrder};
use tower::{Layer, Service};

use crate::client::Client;
use crate::error::{BoxError, Error};
use crate::task::Task;
use data::{DataMap, RequiredData};
use handler::QueueHandler;

pub use data::{Data, MissingData};
pub use fail::Fail;
pub use from_job::FromJob;
pub use handler::{Handler, RawHandler};
pub use job::{CancelReason, Job};
pub use reply::JobReply;
pub use run::WorkerRun;
pub use service::JobService;

const CONCURRENCY: usize = 64;
const WAIT: Duration = Duration::from_secs(20);

/// Adds a layer to the service of a worker.
type WorkerLayer = Box<dyn FnOnce(JobService) -> JobService + Send>;

/// A worker: handlers for queues, and how to run them.
///
/// | if | then |
/// |---|---|
/// | a handler returns `Ok` | the job is acknowledged, with the reply |
/// | it returns [`Fail`], or panics | the failure is reported: the job is retried, or dead |
/// | the payload is not a task of the queue | the job is dead |
/// | a handler runs longer than the lease | the lease is extended every third of it |
/// | the server cannot be reached | everything is repeated; acks until the lease has expired |
/// | the worker stops | handlers finish within the grace period; other jobs are given back at once, which counts as no failure |
///
/// Handlers run as tasks of Tokio. One that blocks its thread delays others: use `tokio::task::spawn_blocking`.
#[must_use = "a worker does nothing until it is run"]
pub struct Worker {
    client: Client,
    queues: Vec<QueueName>,
    handlers: HashMap<String, QueueHandler>,
    required: Vec<RequiredData>,
    data: DataMap,
    layers: Vec<WorkerLayer>,
    name: Option<String>,
    concurrency: usize,
    prefetch: usize,
    wait: Duration,
    lease: Option<DurationMs>,
    max_run: Option<Duration>,
    order: QueueOrder,
    invalid: Option<Error>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Worker")
            .field("queues", &self.queues)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

impl Worker {
    /// A worker without handlers.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            queues: Vec::new(),
            handlers: HashMap::new(),
            required: Vec::new(),
            data: DataMap::default(),
            layers: Vec::new(),
            name: None,
            concurrency: CONCURRENCY,
            prefetch: 0,
            wait: WAIT,
            lease: None,
            max_run: None,
            order: QueueOrder::Weighted,
            invalid: None,
        }
    }

    /// Handles the tasks of a type: `async fn(task: T, …) -> Result<T::Reply, Fail>`. Up to three other arguments are
    /// [`Job`], [`Data`] or a `CancellationToken`.
    pub fn handle<A, H: Handler<A>>(self, handler: H) -> Self {
        self.add(H::Task::QUEUE, handler::typed(handler), H::required_data())
    }

    /// Handles the jobs of a queue without reading their payloads: `async fn(job: Job, …) -> Result<R, Fail>`, with `R`
    /// being `()`, `Vec<u8>` or [`JobReply`].
    pub fn handle_raw<A, H: RawHandler<A>>(self, queue: &str, handler: H) -> Self {
        self.add(queue, handler::raw(handler), H::required_data())
    }

    fn add(mut self, queue: &str, handler: QueueHandler, required: Vec<RequiredData>) -> Self {
        match queue.parse() {
            Ok(name) => self.queues.push(name),
            Err(invalid) => self.fail(tidegate_core::v1::problem::InvalidValue::into(invalid)),
        }
        if self.handlers.insert(queue.to_owned(), handler).is_some() {
            self.fail(Error::Setup(format!(
                "the queue {queue} has two handlers; each needs its own queue"
            )));
        }
        self.required.extend(required);
        self
    }

    fn fail(&mut self, error: Error) {
        self.invalid.get_or_insert(error);
    }

    /// Adds data that handlers get as [`Data<T>`]. One value of each type.
    pub fn data<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.data.insert(value);
        self
    }

    /// Sets the name with which the worker is listed together with the jobs that it holds: 1 to 128 bytes of UTF-8
    /// without control characters. Default: `HOST:PID`, the name of the host and the id of the process.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets how many jobs run at the same time. Default: 64.
    pub fn concurrency(mut self, jobs: usize) -> Self {
        self.concurrency = jobs.max(1);
        self
    }

    /// Sets how many jobs may wait in this process for a slot. Default: none, so that a job never waits here while
    /// another worker is free. With handlers that take less than about 10 ms, as many as `concurrency` keep the slots
    /// busy.
    ///
    /// The leases of jobs that wait are extended. A stop gives them back at once.
    pub fn prefetch(mut self, jobs: usize) -> Self {
        self.prefetch = jobs;
        self
    }

    /// Sets the length of leases, 100 ms to 24 h: after so long without a sign of this worker its jobs are delivered to
    /// another one. Default: as the jobs or the policies of their queues say.
    pub fn lease(mut self, lease: Duration) -> Self {
        match DurationMs::try_from(lease) {
            Ok(lease) => self.lease = Some(lease),
            Err(invalid) => self.fail(invalid.into()),
        }
        self
    }

    /// Sets how long a handler may run. Then it is dropped, its lease is not extended any more, and the attempt has
    /// failed. Default: no limit.
    pub const fn max_run(mut self, limit: Duration) -> Self {
        self.max_run = Some(limit);
        self
    }

    /// Sets how long a reserve request waits for jobs. Default: 20 s.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Serves the queues in the order in which their handlers were added: a queue only if all before it are empty.
    /// Default: in random order, so that none starves.
    pub const fn strict_order(mut self) -> Self {
        self.order = QueueOrder::Strict;
        self
    }

    /// Adds a layer of `tower` around all handlers. It wraps a [`JobService`], and returns a service with the same
    /// response and an error that can be boxed. Layers that are added later are inside, as in the builder of `tower`.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<JobService> + Send + 'static,
        L::Service: Service<Job, Response = JobReply> + Clone + Send + Sync + 'static,
        <L::Service as Service<Job>>::Error: Into<BoxError>,
        <L::Service as Service<Job>>::Future: Send + 'static,
    {
        self.layers.push(Box::new(move |inner| {
            JobService::layered(layer.layer(inner))
        }));
        self
    }

    /// Runs the worker until this future is ready, when it is awaited. Set `.grace(…)` before.
    pub fn run_until<F: Future<Output = ()> + Send + 'static>(self, stop: F) -> WorkerRun {
        WorkerRun::new(self, stop)
    }

    /// The queues as a reserve request names them.
    fn queue_choices(&self) -> Vec<QueueChoice> {
        self.queues.iter().cloned().map(QueueChoice::from).collect()
    }
}
