//! `GET /api/NAMESPACE/QUEUE[,QUEUE…]`: takes jobs, and waits for them if asked to.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use tidegate_store::Claim;
use tokio::time::timeout_at;

use super::error::Refusal;
use super::json;
use super::large::off_runtime;
use super::query::Query;
use super::request::Asked;
use super::scope::ConsumeScope;
use super::shown_job::ShownJob;
use crate::app::App;
use crate::config::JobDefaults;
use crate::unread;
use crate::waiters::{Delivery, RoundFailed};

/// The parameters of a consume.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) claim: Claim,
    patience: Duration,
}

impl Wish {
    pub(super) fn read(
        query: &Query<'_>,
        defaults: &JobDefaults,
        count_max: u16,
    ) -> Result<Self, Refusal> {
        let ttr_seconds = query.number("ttr", defaults.ttr_seconds)?;
        let timeout_seconds: u32 = query.number("timeout", defaults.timeout_seconds)?;
        let count = query.number("count", 1)?;
        if !(1..=count_max).contains(&count) {
            return Err(Refusal::BadNumber("count"));
        }
        let ttr_ms = u64::from(ttr_seconds) * 1000;
        Ok(Self {
            claim: Claim { count, ttr_ms },
            patience: Duration::from_secs(timeout_seconds.into()),
        })
    }
}

pub(super) async fn reserve(app: Arc<App>, asked: Asked) -> Result<Response<Body>, Refusal> {
    let scope = ConsumeScope::open(&app, &asked).await?;
    let requests = &app.requests;
    let wish = Wish::read(
        &asked.query(),
        &app.job_defaults(),
        requests.consume_jobs_max,
    )?;
    let hang_up = asked.hang_up.clone();
    drop(asked);
    if !scope.named || scope.queues.len() > requests.consume_queues_max {
        return Err(Refusal::NoQueue);
    }
    let Wish { claim, patience } = wish;
    let patience = patience.min(app.wait_max);
    let room = match patience.is_zero() {
        true => None,
        false => Some(app.room.take(scope.token)?),
    };
    let sources = scope.pool.sources(&scope.queues);
    let parked = || hang_up.ends_request();
    let waiting = app.waiters.wait(&sources, claim, patience, &parked);
    let waiting = timeout_at(scope.ends_at + patience, waiting);
    let revoked = async {
        match &room {
            Some(room) => room.revoked().await,
            None => std::future::pending().await,
        }
    };
    let waited = tokio::select! {
        biased;
        // Dropping the wait gives jobs back that are reserved for it.
        () = revoked => return Err(Refusal::TokenInvalid),
        waited = waiting => waited,
    };
    let delivery = waited.map_err(|_| Refusal::Internal)??;
    let mut delivery = delivery.ok_or(Refusal::NoJob)?;
    let share = unread::fit_to_budget(&mut delivery, &app.unread);
    let (bytes, list) = (delivery.body_bytes(), claim.count > 1);
    // If the client goes meanwhile the jobs are given back with the delivery.
    let showing = move || (show(&delivery, list), delivery);
    let (shown, delivery) = off_runtime(&app.large_bodies, bytes, showing).await?;
    scope.permit.keep();
    Ok(json::with_body(
        StatusCode::OK,
        delivery.into_body(unread::into_counted(shown, share)),
    ))
}

/// One job alone, or a list of jobs even if it is one.
fn show(delivery: &Delivery, list: bool) -> Vec<u8> {
    let reserved = delivery.jobs();
    let shown = reserved.map(|it| ShownJob::new(it.queue, it.job, it.leased_at_ms).announced());
    let jobs: Vec<ShownJob<'_>> = shown.collect();
    match &jobs[..] {
        [job] if !list => json::line(job),
        _ => json::line(&jobs),
    }
}

impl From<RoundFailed> for Refusal {
    fn from(_: RoundFailed) -> Self {
        Self::Internal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(query: &str, outcome: Result<(u64, u64, u16), Refusal>) {
        let wish = Wish::read(&Query::new(query), &JobDefaults::SHIPPED, 100);
        let outcome = outcome.map(|(ttr_ms, timeout_seconds, count)| Wish {
            claim: Claim { count, ttr_ms },
            patience: Duration::from_secs(timeout_seconds),
        });
        assert_eq!(wish, outcome, "{query}");
    }

    #[test]
    fn the_first_wrong_parameter_decides() {
        expect("freeze_tries=true", Ok((120_000, 0, 1)));
        expect("ttr=0&timeout=600&count=100", Ok((0, 600, 100)));
        expect("ttr=x&timeout=x", Err(Refusal::BadNumber("ttr")));
        expect("timeout=&count=0", Err(Refusal::BadNumber("timeout")));
        for count in ["0", "101", "65537", "-1", ""] {
            expect(&format!("count={count}"), Err(Refusal::BadNumber("count")));
        }
    }
}
