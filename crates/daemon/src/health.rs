//! Liveness and readiness of the process, for load balancers and orchestrators.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// Time limit of a check. Load balancers usually wait for a second.
const CHECK_LIMIT: Duration = Duration::from_millis(900);

/// How long a result is reused, so that frequent requests do not cause as many checks.
const FRESH_FOR: Duration = Duration::from_millis(100);

type CheckFuture = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// A check of something that the process depends on.
pub struct HealthCheck {
    name: String,
    run: Box<dyn Fn() -> CheckFuture + Send + Sync>,
}

impl HealthCheck {
    /// `look` returns why `name` cannot be used. The text is public: it must contain no secret and no
    /// address. A check that takes longer than 900 ms fails.
    pub fn new<F>(name: impl Into<String>, look: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        Self {
            name: name.into(),
            run: Box::new(move || Box::pin(look())),
        }
    }

    /// Runs the check. Returns the problem, if there is one.
    async fn problem(&self) -> Option<String> {
        let looked = timeout(CHECK_LIMIT, (self.run)()).await;
        let late = || Err(format!("no answer within {CHECK_LIMIT:?}"));
        let problem = looked.unwrap_or_else(|_| late()).err()?;
        Some(format!("{}: {problem}", self.name))
    }
}

impl fmt::Debug for HealthCheck {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Check({})", self.name)
    }
}

/// Whether the process can do its work. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Readiness(Arc<ReadinessState>);

#[derive(Debug)]
struct ReadinessState {
    /// Unset until the process has started.
    checks: OnceLock<Vec<Arc<HealthCheck>>>,
    /// The condition that the process waits for while it starts.
    start: &'static str,
    stopping: CancellationToken,
    last: Mutex<Option<(Instant, Vec<String>)>>,
}

impl Readiness {
    /// Not ready until [`Self::mark_started`] is called, nor once `stopping` is cancelled. `start` names the condition
    /// that the process waits for while it starts.
    #[must_use]
    pub fn starting(start: &'static str, stopping: CancellationToken) -> Self {
        Self(Arc::new(ReadinessState {
            checks: OnceLock::new(),
            start,
            stopping,
            last: Mutex::new(None),
        }))
    }

    /// Marks the process as started: from now on it is ready while all `checks` pass. Later calls
    /// have no effect.
    pub fn mark_started(&self, checks: Vec<HealthCheck>) {
        let checks = checks.into_iter().map(Arc::new).collect();
        let _ = self.0.checks.set(checks);
    }

    /// The body of a liveness answer: `ok`, or `starting` before [`Self::mark_started`].
    #[must_use]
    pub fn alive(&self) -> &'static str {
        match self.0.checks.get() {
            Some(_) => "ok",
            None => "starting",
        }
    }

    /// Whether a stop was requested.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.0.stopping.is_cancelled()
    }

    /// Answers 200 `ready`, or 503 with one line per problem.
    pub async fn answer(&self) -> Response {
        let plain = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
        let problems = self.problems().await;
        if problems.is_empty() {
            return (StatusCode::OK, plain, "ready").into_response();
        }
        let text = format!("not ready\n{}\n", problems.join("\n"));
        (StatusCode::SERVICE_UNAVAILABLE, plain, text).into_response()
    }

    async fn problems(&self) -> Vec<String> {
        if self.0.stopping.is_cancelled() {
            return vec!["stopping".to_owned()];
        }
        let Some(checks) = self.0.checks.get() else {
            return vec![format!("start: {}", self.0.start)];
        };
        // Concurrent requests wait for this lock and reuse the result.
        let mut last = self.0.last.lock().await;
        if let Some((at, problems)) = &*last
            && at.elapsed() < FRESH_FOR
        {
            return problems.clone();
        }
        let looking = checks.iter().cloned();
        let looking = looking.map(|check| tokio::spawn(async move { check.problem().await }));
        let mut problems = Vec::new();
        for looked in looking.collect::<Vec<_>>() {
            problems.extend(looked.await.unwrap_or_default());
        }
        *last = Some((Instant::now(), problems.clone()));
        problems
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_process_that_starts_is_alive_and_not_ready() {
        let readiness = Readiness::starting("waiting", CancellationToken::new());
        assert_eq!(readiness.alive(), "starting");
        let answer = (503, "not ready\nstart: waiting\n".to_owned());
        assert_eq!(response_of(&readiness).await, answer);
        readiness.mark_started(Vec::new());
        assert_eq!(readiness.alive(), "ok");
        assert_eq!(response_of(&readiness).await, (200, "ready".to_owned()));
    }

    fn started(check: HealthCheck, stopping: CancellationToken) -> Readiness {
        let readiness = Readiness::starting("waiting", stopping);
        readiness.mark_started(vec![check]);
        readiness
    }

    async fn response_of(readiness: &Readiness) -> (u16, String) {
        let answer = readiness.answer().await;
        let status = answer.status().as_u16();
        let body = axum::body::to_bytes(answer.into_body(), 1000).await;
        (status, String::from_utf8(body.unwrap().to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_process_that_is_not_ready_says_why() {
        let fine = HealthCheck::new("one", async || Ok(()));
        let broken = HealthCheck::new("two", async || Err("unavailable".to_owned()));
        let stopping = CancellationToken::new();
        let readiness = started(fine, stopping.clone());
        assert_eq!(response_of(&readiness).await, (200, "ready".to_owned()));
        stopping.cancel();
        let expected = (503, "not ready\nstopping\n".to_owned());
        assert_eq!(response_of(&readiness).await, expected);
        let readiness = started(broken, CancellationToken::new());
        let expected = (503, "not ready\ntwo: unavailable\n".to_owned());
        assert_eq!(response_of(&readiness).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_requests_share_one_check_and_a_check_has_a_time_limit() {
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&looks);
        let slow = HealthCheck::new("slow", move || {
            counted.fetch_add(1, Ordering::Relaxed);
            std::future::pending()
        });
        let readiness = started(slow, CancellationToken::new());
        let asking: Vec<_> = (0..20)
            .map(|_| {
                let readiness = readiness.clone();
                tokio::spawn(async move { response_of(&readiness).await })
            })
            .collect();
        for answer in asking {
            let (status, text) = answer.await.unwrap();
            assert_eq!(status, 503);
            assert_eq!(text, "not ready\nslow: no answer within 900ms\n");
        }
        assert_eq!(looks.load(Ordering::Relaxed), 1);
    }
}
