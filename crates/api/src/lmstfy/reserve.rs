//! `GET /api/NAMESPACE/QUEUE[,QUEUE…]`: consumes jobs, and waits for them up to `timeout` seconds.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode};
use tidegate_daemon::traces::TraceParent;
use tidegate_store::Claim;
use tokio::time::timeout_at;

use super::error::ApiError;
use super::job_view::JobView;
use super::scope::ConsumeScope;
use crate::app::App;
use crate::config::JobDefaults;
use crate::http::context::RequestContext;
use crate::http::delivery_body::delivery_body;
use crate::http::json;
use crate::http::off_runtime::off_runtime;
use crate::http::query::Query;
use crate::http::request::ApiRequest;
use crate::http::unread;
use crate::spans::{TRACE_PARENT, record_delivery};
use tidegate_engine::{Delivery, Pool};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ConsumeParams {
    pub(super) claim: Claim,
    patience: Duration,
}

impl ConsumeParams {
    pub(super) fn read(
        query: &Query<'_>,
        defaults: &JobDefaults,
        count_max: u16,
    ) -> Result<Self, ApiError> {
        let ttr_seconds = query.number("ttr", defaults.ttr_seconds)?;
        let timeout_seconds: u32 = query.number("timeout", defaults.timeout_seconds)?;
        let count = query.number("count", 1)?;
        if !(1..=count_max).contains(&count) {
            return Err(ApiError::BadNumber("count"));
        }
        let ttr_ms = u64::from(ttr_seconds) * 1000;
        Ok(Self {
            claim: Claim::new(count, ttr_ms),
            patience: Duration::from_secs(timeout_seconds.into()),
        })
    }
}

pub(super) async fn reserve(
    app: Arc<App>,
    api_request: ApiRequest,
) -> Result<Response<Body>, ApiError> {
    let scope = ConsumeScope::open(&app, &api_request).await?;
    let requests = &app.request_limits;
    let params = ConsumeParams::read(
        &api_request.query(),
        &app.job_defaults(),
        requests.consume_jobs_max,
    )?;
    let context = Arc::clone(&api_request.context);
    if !scope.has_name || scope.queues.len() > requests.consume_queues_max {
        return Err(ApiError::NoQueue);
    }
    let ConsumeParams { claim, patience } = params;
    let patience = patience.min(app.wait_max);
    let waits = !patience.is_zero();
    let token = waits.then(|| scope.token(&app, &api_request));
    drop(api_request);
    let namespace = scope.queues.first().map(|queue| &queue.namespace);
    let room = token.zip(namespace).map(|(token, namespace)| {
        let seats = scope.queues.len();
        app.engine.take_wait_room(namespace, token, None, seats)
    });
    let room = room.transpose()?;
    let sources = scope.pool.sources(&scope.queues);
    let waiting = app.engine.waiters.wait(&sources, claim, patience);
    let waiting = timeout_at(scope.ends_at + patience, waiting);
    let revoked = async {
        match &room {
            Some(room) => room.revoked().await,
            None => std::future::pending().await,
        }
    };
    let waited = tokio::select! {
        biased;
        // Dropping the wait releases the jobs that are reserved for it.
        () = revoked => return Err(ApiError::TokenInvalid),
        waited = waiting => waited,
    };
    let delivery = waited.map_err(|_| ApiError::Internal)??;
    let mut delivery = delivery.ok_or(ApiError::NoJob)?;
    let share = unread::fit_to_budget(&mut delivery, &app.exchange.unread);
    let (bytes, list) = (delivery.body_bytes(), claim.count > 1);
    let span = record_deliveries(&app, &context, &delivery);
    // If the client hangs up meanwhile, the delivery is dropped, which releases the jobs.
    let pool = Arc::clone(&scope.pool);
    let showing = move || (show(&pool, &delivery, list), delivery);
    let (shown, delivery) = off_runtime(&app.large_bodies, bytes, showing).await?;
    scope.permit.keep();
    let mut response = json::with_body(
        StatusCode::OK,
        delivery_body(shown.into(), delivery.shown()),
    );
    let header = span.and_then(|span| HeaderValue::try_from(span.to_string()).ok());
    if let Some(header) = header {
        response.headers_mut().insert(TRACE_PARENT, header);
    }
    Ok(unread::with_share(response, share))
}

/// Records the deliveries that are traced, and returns the span of a single job.
fn record_deliveries(
    app: &App,
    request: &RequestContext,
    delivery: &Delivery,
) -> Option<TraceParent> {
    app.traces.as_ref()?;
    let (mut single, now_ms) = (None, delivery.now_ms());
    for (index, it) in delivery.jobs().enumerate() {
        let span = record_delivery(app.traces.as_ref(), it.queue, it.job, now_ms);
        if let Some(span) = span {
            request.set_trace(span);
        }
        single = span.filter(|_| index == 0);
    }
    single
}

/// The JSON of the jobs: an object for one job, or an array if `list`.
fn show(pool: &Pool, delivery: &Delivery, list: bool) -> Vec<u8> {
    let reserved = delivery.jobs();
    let shown = reserved.map(|it| {
        let tries = pool.attempts_left(it.queue, it.job);
        JobView::new(it.queue, it.job, it.leased_at_ms, tries).with_new_job_message()
    });
    let jobs: Vec<JobView<'_>> = shown.collect();
    match &jobs[..] {
        [job] if !list => job.json(),
        jobs => JobView::json_list(jobs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SHIPPED;

    #[track_caller]
    fn expect(query: &str, outcome: Result<(u64, u64, u16), ApiError>) {
        let params = ConsumeParams::read(&Query::new(query), &SHIPPED.job, 100);
        let outcome = outcome.map(|(ttr_ms, timeout_seconds, count)| ConsumeParams {
            claim: Claim::new(count, ttr_ms),
            patience: Duration::from_secs(timeout_seconds),
        });
        assert_eq!(params, outcome, "{query}");
    }

    #[test]
    fn the_first_wrong_parameter_decides() {
        expect("freeze_tries=true", Ok((120_000, 0, 1)));
        expect("ttr=0&timeout=600&count=100", Ok((0, 600, 100)));
        expect("ttr=x&timeout=x", Err(ApiError::BadNumber("ttr")));
        expect("timeout=&count=0", Err(ApiError::BadNumber("timeout")));
        for count in ["0", "101", "65537", "-1", ""] {
            expect(&format!("count={count}"), Err(ApiError::BadNumber("count")));
        }
    }
}
