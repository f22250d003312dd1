use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::{Duration, Instant};

use clap::Args;
use futures_util::future::try_join_all;

use crate::clock::{now_us, since_1970_ms};
use crate::error::LoadgenError;
use crate::http::HttpConnection;
use crate::job_tracker::DeliveredJob;
use crate::load_clients::{FillOptions, fill};
use crate::report::{Goal, latencies};
use crate::request_schedule::RequestSchedule;
use crate::run::ScenarioRun;
use crate::wire::native;

const GOALS: [(f64, f64); 1] = [(0.99, 15.0)];
/// Seconds between the last failure and the first retry.
const BREATH: u32 = 2;
/// How long to wait for the next job before the rest count as lost.
const PATIENCE: Duration = Duration::from_secs(20);

/// The flags of `retry`.
#[derive(Debug, Clone, Args)]
pub struct RetryOptions {
    /// Jobs that fail per second, and later are due again per second
    #[arg(long, default_value_t = 1000.0)]
    rate: f64,
    /// Seconds during which jobs fail
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Connections that reserve and settle, one job per request
    #[arg(long, default_value_t = 64)]
    consumers: usize,
}

/// When each failed job is due again, in ms since 1970, by job number.
type RetryTimes = RefCell<HashMap<u64, u64>>;

impl RetryOptions {
    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        run.report.load = format!(
            "open loop: failures at a fixed rate; {} consumers",
            self.consumers
        );
        run.report.parameter("rate", self.rate);
        run.report.parameter("seconds", self.seconds);
        let queue = run.queue("retry");
        let jobs = (self.rate * f64::from(self.seconds)).ceil();
        let filling = FillOptions::new(std::slice::from_ref(&queue), jobs as u64);
        fill(run, filling, || 0).await?;
        let times = RetryTimes::default();
        let meter = run.meter()?;
        self.fail_all(run, &queue, &times).await?;
        let failing = meter.read()?;
        run.report.cpu("reserve + fail", &failing, jobs, jobs * 2.0);

        let lateness = RefCell::new(latencies());
        let meter = run.meter()?;
        self.consume_retries(run, &queue, &times, |job| {
            lateness.borrow_mut().saturating_record(job.lateness_us());
        })
        .await?;
        let retrying = meter.read()?;
        let report = &mut run.report;
        report.latency("lateness of retries", &lateness.into_inner(), &GOALS);
        report.cpu("retry + reserve + ack", &retrying, jobs, jobs * 2.0);
        let early = run.jobs.borrow().early_count() as f64;
        run.report
            .figure_with_goal("early", early, "jobs", Goal::AtMost(0.0));
        run.check_clocks();
        Ok(())
    }

    /// Reserves each job once and reports that it failed, at the rate.
    async fn fail_all(
        &self,
        run: &ScenarioRun<'_>,
        queue: &str,
        times: &RetryTimes,
    ) -> Result<(), LoadgenError> {
        let retry_in = self.seconds + BREATH;
        let bar = run.progress(
            &format!("failing {}/s for {} s", self.rate, self.seconds),
            0,
        );
        let connections = run.connections(self.consumers).await?;
        let pace = RequestSchedule::new(Duration::from_secs(self.seconds.into()), self.rate);
        let work = connections.into_iter().map(|mut connection| {
            let pace = &pace;
            let request = run.requests.consume(queue, 1, 0);
            async move {
                while pace.next().await.is_some() {
                    let Some((number, lease)) = first_delivery(&mut connection, &request).await?
                    else {
                        return Ok::<_, LoadgenError>(());
                    };
                    let body = format!(
                        r#"{{"leases":[{{"lease":"{lease}","error":"as planned","retry_in":"{retry_in}s"}}]}}"#
                    );
                    let mut fail = Vec::new();
                    native::write_call(&run.requests, &mut fail, "fail", body.as_bytes());
                    let sent_us = now_us();
                    let due_ms = retried_at(&mut connection, &fail).await?;
                    if due_ms * 1000 < sent_us + u64::from(retry_in) * 1_000_000 {
                        let defect = format!("job {number} is due before its retry delay is over");
                        run.jobs.borrow_mut().record_defect(defect);
                    }
                    times.borrow_mut().insert(number, due_ms);
                }
                Ok(())
            }
        });
        try_join_all(work).await?;
        bar.finish_and_clear();
        Ok(())
    }

    /// Consumes and acknowledges each job when it is due again.
    async fn consume_retries(
        &self,
        run: &ScenarioRun<'_>,
        queue: &str,
        times: &RetryTimes,
        note: impl Fn(&DeliveredJob),
    ) -> Result<(), LoadgenError> {
        let outstanding = run.jobs.borrow().outstanding();
        let bar = run.progress(&format!("consuming {outstanding} retries"), outstanding);
        let patience = PATIENCE + Duration::from_secs((self.seconds + BREATH).into());
        let last = Cell::new(Instant::now());
        let connections = run.connections(self.consumers).await?;
        let work = connections.into_iter().map(|mut connection| {
            let (note, bar, last) = (&note, &bar, &last);
            let request = run.requests.consume(queue, 1, 1);
            async move {
                while run.jobs.borrow().outstanding() > 0 && last.get().elapsed() < patience {
                    let answer = connection.exchange(&request).await?;
                    let received_us = now_us();
                    if answer.status != 200 {
                        let (status, body) = (answer.status, answer.body);
                        return Err(LoadgenError::unexpected("reserve", status, body));
                    }
                    let Some(job) = native::reserved(answer.body)?.into_iter().next() else {
                        continue;
                    };
                    let label = job.label();
                    let due_ms = label.and_then(|it| times.borrow_mut().remove(&it.number));
                    match label.zip(due_ms) {
                        // A delivery that reached no consumer has a number as well, so this may be more than the
                        // second.
                        Some((label, due_ms)) if job.attempt >= 2 => {
                            let job = DeliveredJob::due_at(label, due_ms, received_us);
                            run.jobs.borrow_mut().record_delivered(&job);
                            note(&job);
                        }
                        _ => run.jobs.borrow_mut().record_foreign(),
                    }
                    let ack = native::settle(&run.requests, "ack", &[job.lease], "");
                    let answer = connection.exchange(&ack).await?;
                    native::outcomes("ack", answer.status, answer.body)?;
                    last.set(Instant::now());
                    bar.inc(1);
                }
                Ok::<_, LoadgenError>(())
            }
        });
        try_join_all(work).await?;
        bar.finish_and_clear();
        Ok(())
    }
}

/// Reserves a job. Returns its number and its lease; `None` if there is none.
async fn first_delivery(
    connection: &mut HttpConnection,
    request: &[u8],
) -> Result<Option<(u64, String)>, LoadgenError> {
    let answer = connection.exchange(request).await?;
    let (status, body) = (answer.status, answer.body);
    let unexpected = || LoadgenError::unexpected("reserve", status, body);
    if status != 200 {
        return Err(unexpected());
    }
    let Some(job) = native::reserved(body)?.into_iter().next() else {
        return Ok(None);
    };
    let label = job.label().filter(|_| job.attempt == 1);
    let label = label.ok_or_else(unexpected)?;
    Ok(Some((label.number, job.lease.to_owned())))
}

/// Sends a failure. Returns when the job is due again, in ms since 1970.
async fn retried_at(connection: &mut HttpConnection, fail: &[u8]) -> Result<u64, LoadgenError> {
    let answer = connection.exchange(fail).await?;
    let outcomes = native::outcomes("fail", answer.status, answer.body)?;
    let outcome = outcomes.first().filter(|it| it.outcome == "retry");
    let run_at = outcome.and_then(|it| since_1970_ms(it.run_at?));
    run_at.ok_or_else(|| LoadgenError::unexpected("fail", answer.status, answer.body))
}
