//! Dead jobs that come back at a rate: how exact it is, and that an interruption neither loses nor doubles one.

use std::cell::Cell;
use std::time::{Duration, Instant};

use clap::Args;
use futures_util::future::try_join;

use super::dead_jobs::make_dead;
use crate::error::LoadgenError;
use crate::http::HttpConnection;
use crate::load_clients::{FillOptions, drain, fill};
use crate::report::{Curve, Goal};
use crate::run::ScenarioRun;
use crate::wire::native;

/// How far the rate may be from the requested one, in percent.
const GOAL: Goal = Goal::AtMost(2.0);
/// Time between two counts of the ready jobs.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);
/// How long to wait for a respawned job to be ready: a call schedules about 10 s ahead.
const PATIENCE: Duration = Duration::from_secs(30);

/// The flags of `respawn`.
#[derive(Debug, Clone, Args)]
pub struct RespawnOptions {
    /// Dead jobs, at least ten seconds of them
    #[arg(long, default_value_t = 100_000)]
    jobs: u64,
    /// Jobs that come back per second
    #[arg(long, default_value_t = 500)]
    rate: u32,
}

impl RespawnOptions {
    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        run.report.load = "one client that acts".to_owned();
        run.report.parameter("jobs", self.jobs);
        run.report.parameter("rate", self.rate);
        let queue = run.queue("respawned");
        let filling = FillOptions::new(std::slice::from_ref(&queue), self.jobs);
        fill(run, filling, || 0).await?;
        make_dead(run, &queue, self.jobs).await?;
        let (interrupted, samples) = self.respawn(run, &queue, self.jobs / 2).await?;
        self.report_rate(run, interrupted, samples);
        // Nothing is kept from the first action, as if its client had died.
        let rest = self.act(run, &queue, self.jobs).await?;
        let again = self.act(run, &queue, self.jobs).await?;
        if (interrupted + rest, again) != (self.jobs, 0) {
            let defect = format!(
                "{} dead jobs: {interrupted} respawned before the interruption, {rest} behind it, {again} again",
                self.jobs
            );
            run.jobs.borrow_mut().record_defect(defect);
        }
        run.report.figure(
            "respawned before the interruption",
            interrupted as f64,
            "jobs",
        );
        run.report
            .figure("respawned behind it", rest as f64, "jobs");
        drain(run, std::slice::from_ref(&queue)).await
    }

    /// Respawns up to `most` dead jobs at the rate, and counts the ready jobs until all of them are due. Returns the
    /// number of respawned jobs, and the counts by time in seconds.
    async fn respawn(
        &self,
        run: &ScenarioRun<'_>,
        queue: &str,
        most: u64,
    ) -> Result<(u64, Vec<(f64, f64)>), LoadgenError> {
        let expected = Cell::new(None);
        let bar = run.progress(&format!("respawning up to {most} jobs"), most);
        let acting = async {
            let changed = self.act(run, queue, most).await?;
            expected.set(Some((changed, Instant::now())));
            Ok::<_, LoadgenError>(changed)
        };
        let outcome = try_join(acting, count_ready(run, queue, &expected)).await?;
        bar.finish_and_clear();
        Ok(outcome)
    }

    /// Respawns dead jobs at the rate, until `most` have been respawned or none is left. Returns their number.
    async fn act(
        &self,
        run: &ScenarioRun<'_>,
        queue: &str,
        most: u64,
    ) -> Result<u64, LoadgenError> {
        let mut connection = HttpConnection::open(run.server.address, 0).await?;
        let (mut changed, mut cursor) = (0, None);
        while changed < most {
            let mut body = serde_json::json!({"do": "respawn", "rate_per_second": self.rate, "filter": {"state": "dead"}});
            if let Some(cursor) = cursor {
                body["cursor"] = serde_json::Value::String(cursor);
            }
            let mut request = Vec::new();
            let rest = format_args!("queues/{queue}/jobs/act");
            native::write_call(
                &run.requests,
                &mut request,
                rest,
                body.to_string().as_bytes(),
            );
            let answer = connection.exchange(&request).await?;
            if answer.status != 200 {
                return Err(LoadgenError::unexpected("act", answer.status, answer.body));
            }
            let acted = native::acted(answer.body)?;
            changed += acted.changed;
            cursor = acted.next;
            if cursor.is_none() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(acted.wait_ms)).await;
        }
        Ok(changed)
    }

    /// Adds the rate at which jobs became ready, between the first count above 0 and the last one below all.
    fn report_rate(&self, run: &mut ScenarioRun<'_>, all: u64, samples: Vec<(f64, f64)>) {
        let is_between = |sample: &&(f64, f64)| sample.1 > 0.0 && sample.1 < all as f64;
        let first = samples.iter().find(is_between);
        let (Some(first), Some(last)) = (first, samples.iter().rfind(is_between)) else {
            return;
        };
        let rate = (last.1 - first.1) / (last.0 - first.0);
        let off = (rate / f64::from(self.rate) - 1.0).abs() * 100.0;
        run.report.rate("respawn", rate, None);
        run.report
            .figure_with_goal("respawn: off the rate", off, "%", GOAL);
        run.report.series.push(Curve {
            name: "respawn".to_owned(),
            x: "seconds".to_owned(),
            y: "ready jobs".to_owned(),
            points: samples,
        });
    }
}

/// Counts the ready jobs until all that are expected are there. Returns the counts by time in seconds.
async fn count_ready(
    run: &ScenarioRun<'_>,
    queue: &str,
    expected: &Cell<Option<(u64, Instant)>>,
) -> Result<Vec<(f64, f64)>, LoadgenError> {
    let mut connection = HttpConnection::open(run.server.address, 0).await?;
    let (begin, mut samples) = (Instant::now(), Vec::new());
    loop {
        let ready = run.size(&mut connection, queue).await?;
        samples.push((begin.elapsed().as_secs_f64(), ready as f64));
        match expected.get() {
            Some((all, since)) if ready >= all || since.elapsed() > PATIENCE => return Ok(samples),
            _ => tokio::time::sleep(SAMPLE_INTERVAL).await,
        }
    }
}
