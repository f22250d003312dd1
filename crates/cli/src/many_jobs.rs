//! Lists of jobs, and actions on all that match.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate::api::job::{ActBody, JobExplanation};
use tidegate::api::values::PageSize;
use tidegate::{Client, CursorGuard, JobChange, JobDetails, JobFilter};

use crate::arguments::job::ActArguments;
use crate::error_output;
use crate::failure::CommandFailure;
use crate::output::CommandOutput;

/// How often progress is printed.
const PROGRESS: Duration = Duration::from_secs(2);

pub(crate) async fn list(
    client: &Client,
    queue: &str,
    filter: JobFilter,
    limit: usize,
) -> Result<CommandOutput, CommandFailure> {
    let jobs = client.queue(queue)?.jobs(&filter, limit).await?;
    let rows = jobs.iter().map(row).collect();
    Ok(CommandOutput::shown(&jobs, Value::Array(rows))?)
}

/// The fields of a job that fit into a line.
fn row(job: &JobDetails) -> Value {
    let last = job.history.last();
    json!({
        "id": job.id,
        "key": job.key,
        "state": job.state,
        "time": job.lease_until.or(job.run_at),
        "attempt": job.attempt,
        "failures": job.failures,
        "error": last.and_then(|entry| entry.error.as_ref()),
    })
}

pub(crate) fn explanation(answer: &JobExplanation) -> Result<CommandOutput, CommandFailure> {
    let facts = answer.facts.iter().map(|fact| json!({"why": fact.text}));
    let summary = json!({"why": answer.summary});
    let shown = std::iter::once(summary).chain(facts).collect();
    Ok(CommandOutput::shown(answer, shown)?)
}

pub(crate) async fn act(
    client: &Client,
    arguments: ActArguments,
) -> Result<CommandOutput, CommandFailure> {
    let queue = client.queue(&arguments.queue)?;
    let change = JobChange {
        delay: arguments.delay,
        run_at: arguments.run_at,
        ..JobChange::default()
    };
    let mut body = ActBody {
        act: arguments.act,
        filter: arguments.filter.into(),
        dry_run: arguments.dry_run,
        cursor: None,
        limit: PageSize::MAX,
        rate_per_second: arguments.rate,
        running: arguments.running,
        change: (change != JobChange::default()).then_some(change),
    };
    let (mut matched, mut changed, mut printed_at) = (0_u64, 0_u64, Instant::now());
    let mut cursors = CursorGuard::default();
    loop {
        let answer = queue.act(&body).await.inspect_err(|_| {
            progress(matched, changed);
        })?;
        matched += answer.matched;
        changed += answer.changed;
        let Some(next) = answer.next else { break };
        // An action that has to wait may continue at the same place.
        if answer.wait_ms == 0 {
            cursors.check(&next)?;
        }
        body.cursor = Some(next);
        if printed_at.elapsed() >= PROGRESS {
            progress(matched, changed);
            printed_at = Instant::now();
        }
        tokio::time::sleep(Duration::from_millis(answer.wait_ms)).await;
    }
    Ok(CommandOutput::Answer(
        json!({"matched": matched, "changed": changed}),
    ))
}

fn progress(matched: u64, changed: u64) {
    error_output::write(format!("{matched} jobs matched, {changed} changed\n").as_bytes());
}
