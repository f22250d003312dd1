use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use clap::Args;
use tokio::time::sleep;

use crate::error::LoadgenError;
use crate::http::HttpConnection;
use crate::report::latencies;
use crate::run::ScenarioRun;
use crate::server::address;
use crate::wire::native;

const GOALS: [(f64, f64); 2] = [(0.5, 2.0), (0.99, 8.0)];

/// The flags of `call`.
#[derive(Debug, Clone, Args)]
pub struct CallOptions {
    /// Calls, one after the other
    #[arg(long, default_value_t = 2000)]
    calls: u64,
    /// Milliseconds between two calls
    #[arg(long, default_value_t = 5)]
    pause_ms: u64,
    /// The API that the worker uses, as http://host:port; by default the same as the publisher
    #[arg(long, value_name = "URL")]
    worker: Option<String>,
}

impl CallOptions {
    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        run.report.load =
            "closed loop: one publisher that waits for each result, one worker".to_owned();
        run.report.parameter("calls", self.calls);
        run.report.parameter("pause_ms", self.pause_ms);
        let queue = run.queue("call");
        let worker = match &self.worker {
            Some(url) => address(url)?,
            None => run.server.address,
        };
        let worker = HttpConnection::open(worker, 0).await?;
        let times = RefCell::new(latencies());
        let is_done = Cell::new(false);
        let bar = run.progress(&format!("{} calls", self.calls), self.calls);
        let calling = async {
            let called = self.call_all(run, &queue, |took| {
                let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                times.borrow_mut().saturating_record(us);
                bar.inc(1);
            });
            let called = called.await;
            is_done.set(true);
            called
        };
        tokio::try_join!(calling, serve(run, worker, &queue, &is_done))?;
        bar.finish_and_clear();
        let times = times.into_inner();
        run.report.latency("publish to result", &times, &GOALS);
        Ok(())
    }

    /// Publishes jobs, and waits for the result of each. That is the number of the call.
    async fn call_all(
        &self,
        run: &ScenarioRun<'_>,
        queue: &str,
        mut note: impl FnMut(Duration),
    ) -> Result<(), LoadgenError> {
        let mut connection = HttpConnection::open(run.server.address, 1).await?;
        for number in 0..self.calls {
            let mut publish = Vec::new();
            let path = format!("queues/{queue}/jobs/call?wait=20s");
            let payload = number.to_string();
            native::write_call(&run.requests, &mut publish, path, payload.as_bytes());
            let began_at = Instant::now();
            let answer = connection.exchange(&publish).await?;
            note(began_at.elapsed());
            if answer.status != 200 || answer.body != payload.as_bytes() {
                return Err(LoadgenError::unexpected(
                    "publish",
                    answer.status,
                    answer.body,
                ));
            }
            sleep(Duration::from_millis(self.pause_ms)).await;
        }
        Ok(())
    }
}

/// Returns the payload of each job as its result, until all calls are done.
async fn serve(
    run: &ScenarioRun<'_>,
    mut connection: HttpConnection,
    queue: &str,
    is_done: &Cell<bool>,
) -> Result<(), LoadgenError> {
    let request = run.requests.consume(queue, 1, 1);
    while !is_done.get() {
        let answer = connection.exchange(&request).await?;
        if answer.status != 200 {
            return Err(LoadgenError::unexpected(
                "reserve",
                answer.status,
                answer.body,
            ));
        }
        let Some(job) = native::reserved(answer.body)?.into_iter().next() else {
            continue;
        };
        let (lease, result) = (job.lease, job.payload().unwrap_or("null"));
        let body = format!(r#"{{"leases":[{{"lease":"{lease}","result":{result}}}]}}"#);
        let mut ack = Vec::new();
        native::write_call(&run.requests, &mut ack, "ack", body.as_bytes());
        let answer = connection.exchange(&ack).await?;
        native::outcomes("ack", answer.status, answer.body)?;
    }
    Ok(())
}
