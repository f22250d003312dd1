//! How many ticks of schedules the pump of one bucket publishes in a second, and how late the ticks of another
//! namespace in that bucket are meanwhile.

use std::time::{Duration, Instant};

use clap::Args;
use futures_util::future::try_join;
use serde_json::{Value, json};

use crate::clock::{now_us, since_1970_ms};
use crate::error::LoadgenError;
use crate::http::HttpConnection;
use crate::report::{Goal, Latencies, latencies};
use crate::run::ScenarioRun;
use crate::wire::native;
use crate::wire::request::RequestBuilder;

const LATENESS_GOALS: [(f64, f64); 1] = [(0.99, 50.0)];
const RATE_GOAL: Goal = Goal::AtLeast(5000.0);
/// Schedules of the other namespace, with a tick a second each.
const OTHERS: usize = 20;

/// The flags of `schedules`.
#[derive(Debug, Clone, Args)]
pub struct SchedulesOptions {
    /// Schedules of one queue, with a tick each 100 ms
    #[arg(long, default_value_t = 1000)]
    schedules: usize,
    /// Seconds of the measurement
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// Number of buckets of the deployment
    #[arg(long, default_value_t = 256)]
    buckets: u32,
}

impl SchedulesOptions {
    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        run.report.load = format!(
            "{} schedules of 100 ms, and {OTHERS} of 1 s of another namespace in the same bucket",
            self.schedules
        );
        run.report.parameter("schedules", self.schedules);
        run.report.parameter("seconds", self.seconds);
        let flooded = run.queue_prefix("flooded");
        let other = run.server.beside().await?;
        let others = ScenarioRun::new(&run.report.scenario, &other, true);
        let beside = others.queue_in_bucket_of(&run.full_name(&flooded), "beside", self.buckets)?;
        let mut connection = HttpConnection::open(run.server.address, 0).await?;
        set_schedules(&mut connection, &others.requests, &beside, OTHERS, "1s").await?;
        let bar = run.progress("setting schedules", 0);
        set_schedules(
            &mut connection,
            &run.requests,
            &flooded,
            self.schedules,
            "100ms",
        )
        .await?;
        bar.finish_and_clear();
        let meter = run.meter()?;
        let (ticks, lateness) = try_join(
            self.count_ticks(run, &flooded),
            self.consume_ticks(&others, &beside),
        )
        .await?;
        let usage = meter.read()?;
        let rate = ticks as f64 / f64::from(self.seconds);
        run.report
            .figure_with_goal("ticks of one bucket", rate, "ticks/s", RATE_GOAL);
        run.report
            .latency("lateness of others", &lateness, &LATENESS_GOALS);
        run.report.cpu("tick", &usage, ticks as f64, ticks as f64);
        delete_schedules(&mut connection, &run.requests, self.schedules).await?;
        delete_schedules(&mut connection, &others.requests, OTHERS).await
    }

    /// Returns by how many jobs the queue has grown.
    async fn count_ticks(&self, run: &ScenarioRun<'_>, queue: &str) -> Result<u64, LoadgenError> {
        let mut connection = HttpConnection::open(run.server.address, 0).await?;
        let before = run.size(&mut connection, queue).await?;
        run.pause("counting ticks", Duration::from_secs(self.seconds.into()))
            .await;
        Ok(run.size(&mut connection, queue).await? - before)
    }

    /// Returns how late the jobs of the ticks came that were due since the call.
    async fn consume_ticks(
        &self,
        run: &ScenarioRun<'_>,
        queue: &str,
    ) -> Result<Latencies, LoadgenError> {
        let mut connection = HttpConnection::open(run.server.address, 0).await?;
        let request = native::reserve(&run.requests, queue, OTHERS, 1);
        let (begin, begin_us, mut lateness) = (Instant::now(), now_us(), latencies());
        while begin.elapsed() < Duration::from_secs(self.seconds.into()) {
            let answer = connection.exchange(&request).await?;
            let received_us = now_us();
            let unexpected = || LoadgenError::unexpected("reserve", answer.status, answer.body);
            let body: Value = serde_json::from_slice(answer.body).map_err(|_| unexpected())?;
            let mut leases = Vec::new();
            for job in body["jobs"].as_array().into_iter().flatten() {
                let due_ms = job["run_at"].as_str().and_then(since_1970_ms);
                let (Some(due_ms), Some(lease)) = (due_ms, job["lease"].as_str()) else {
                    return Err(unexpected());
                };
                // Ticks that were due before have waited for this consumer.
                if due_ms * 1000 >= begin_us {
                    lateness.saturating_record(received_us.saturating_sub(due_ms * 1000));
                }
                leases.push(lease.to_owned());
            }
            if leases.is_empty() {
                continue;
            }
            let ack = native::settle(&run.requests, "ack", &leases, "");
            connection.exchange(&ack).await?;
        }
        Ok(lateness)
    }
}

async fn set_schedules(
    connection: &mut HttpConnection,
    requests: &RequestBuilder,
    queue: &str,
    count: usize,
    every: &str,
) -> Result<(), LoadgenError> {
    let schedule =
        json!({"queue": queue, "every": every, "overlap": "allow", "job": {"payload": 1}});
    let body = schedule.to_string();
    for number in 0..count {
        let mut request = Vec::new();
        let rest = format_args!("schedules/s{number}");
        native::write_body(requests, &mut request, "PUT", rest, body.as_bytes());
        let answer = connection.exchange(&request).await?;
        if answer.status >= 300 {
            return Err(LoadgenError::unexpected(
                "setting a schedule",
                answer.status,
                answer.body,
            ));
        }
    }
    Ok(())
}

async fn delete_schedules(
    connection: &mut HttpConnection,
    requests: &RequestBuilder,
    count: usize,
) -> Result<(), LoadgenError> {
    for number in 0..count {
        let mut request = Vec::new();
        let rest = format_args!("schedules/s{number}");
        requests.write_without_body(&mut request, "DELETE", rest);
        connection.exchange(&request).await?;
    }
    Ok(())
}
