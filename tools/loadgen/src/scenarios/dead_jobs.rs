//! Jobs in the dead letter, for scenarios that read or respawn them. Native wire.

use std::cell::Cell;

use futures_util::future::try_join_all;

use crate::error::LoadgenError;
use crate::http::HttpConnection;
use crate::run::ScenarioRun;
use crate::wire::native;

/// Connections that reserve and fail.
const FAILERS: usize = 8;
const ERROR: &str = "HTTP 410 as planned";

/// Reserves `jobs` ready jobs of a queue, and fails each for good.
///
/// # Errors
/// The queue has fewer ready jobs, or an answer is not as expected.
pub(super) async fn make_dead(
    run: &ScenarioRun<'_>,
    queue: &str,
    jobs: u64,
) -> Result<(), LoadgenError> {
    let bar = run.progress(&format!("failing {jobs} jobs for good"), jobs);
    let left = Cell::new(jobs);
    let connections = run.connections(FAILERS).await?;
    let work = connections.into_iter().map(|mut connection| {
        let (left, bar) = (&left, &bar);
        async move {
            while left.get() > 0 {
                let count = left.get().min(run.requests.wire.jobs_per_consume() as u64);
                left.set(left.get() - count);
                fail_for_good(run, &mut connection, queue, count).await?;
                bar.inc(count);
            }
            Ok::<_, LoadgenError>(())
        }
    });
    try_join_all(work).await?;
    bar.finish_and_clear();
    Ok(())
}

async fn fail_for_good(
    run: &ScenarioRun<'_>,
    connection: &mut HttpConnection,
    queue: &str,
    count: u64,
) -> Result<(), LoadgenError> {
    let reserve = native::reserve(&run.requests, queue, count as usize, 0);
    let answer = connection.exchange(&reserve).await?;
    if answer.status != 200 {
        return Err(LoadgenError::unexpected(
            "reserve",
            answer.status,
            answer.body,
        ));
    }
    let jobs = native::reserved(answer.body)?;
    let leases = jobs.iter().map(|job| {
        format!(
            r#"{{"lease":"{}","error":"{ERROR}","dead":true}}"#,
            job.lease
        )
    });
    let leases: Vec<String> = leases.collect();
    let body = format!(r#"{{"leases":[{}]}}"#, leases.join(","));
    let mut fail = Vec::new();
    native::write_call(&run.requests, &mut fail, "fail", body.as_bytes());
    let answer = connection.exchange(&fail).await?;
    let outcomes = native::outcomes("fail", answer.status, answer.body)?;
    let dead = outcomes.iter().filter(|it| it.outcome == "dead").count();
    match dead as u64 == count {
        true => Ok(()),
        false => Err(LoadgenError::unexpected("fail", answer.status, answer.body)),
    }
}
