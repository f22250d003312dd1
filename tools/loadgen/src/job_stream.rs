//! A steady stream of jobs through one queue, to measure how other load affects it.

use std::cell::Cell;
use std::time::{Duration, Instant};

use futures_util::future::{try_join, try_join_all};

use crate::error::LoadgenError;
use crate::job_tracker::DeliveredJob;
use crate::load_clients::{LoadConsumer, SingleJobs, publish};
use crate::report::Latencies;
use crate::request_schedule::RequestSchedule;
use crate::run::ScenarioRun;
use crate::wire::publish_request::JobOption;

/// Number of publishing connections, and of consuming ones.
pub(crate) const STREAM_CONNECTIONS: usize = 8;
const BODY_BYTES: usize = 100;
/// How long to wait for the last jobs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Jobs of 100 bytes, published one by one at a fixed rate and consumed immediately.
pub(crate) struct JobStream<'a> {
    pub(crate) queue: &'a String,
    /// Jobs per second.
    pub(crate) rate: f64,
    pub(crate) length: Duration,
    /// Delay of each job in seconds.
    pub(crate) delay: u32,
}

impl JobStream<'_> {
    /// Runs until all jobs have arrived, or a minute after the end of the stream. Calls `note` with
    /// each job. Returns the latencies of the publishes.
    pub(crate) async fn run(
        &self,
        run: &ScenarioRun<'_>,
        note: impl Fn(&DeliveredJob),
    ) -> Result<Latencies, LoadgenError> {
        let (published, arrived) = (Cell::new(false), Cell::new(0));
        let publishing = async {
            let queues = std::slice::from_ref(self.queue);
            let pace = || RequestSchedule::new(self.length, self.rate);
            let singles = SingleJobs {
                queues,
                connections: STREAM_CONNECTIONS,
                body_bytes: BODY_BYTES,
                delay: self.delay,
                option: JobOption::None,
            };
            let latencies = publish(run, singles, pace).await?;
            published.set(true);
            Ok::<_, LoadgenError>(latencies)
        };
        let expected = (self.length.as_secs_f64() * self.rate).ceil() as usize;
        let is_over = || published.get() && arrived.get() >= expected;
        let consuming = async {
            let connections = run.connections(STREAM_CONNECTIONS).await?;
            let begin = Instant::now();
            let work = connections.into_iter().map(|connection| {
                let (note, is_over, arrived) = (&note, &is_over, &arrived);
                let mut consumer = LoadConsumer::new(run, connection, self.queue, 1, 1);
                async move {
                    while !is_over() && begin.elapsed() < self.length + PATIENCE {
                        let jobs = consumer.consume(note).await?;
                        arrived.set(arrived.get() + jobs);
                        consumer.ack().await?;
                    }
                    Ok::<_, LoadgenError>(())
                }
            });
            try_join_all(work).await
        };
        let (latencies, _) = try_join(publishing, consuming).await?;
        Ok(latencies)
    }
}
