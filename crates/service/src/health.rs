//! Whether the process serves, and whether it can do its work: what balancers and orchestrators ask.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// The longest wait for a check. Balancers usually wait for a second.
const CHECK_LIMIT: Duration = Duration::from_millis(900);

/// Answers are this old at most. The question costs nothing to ask, so asking often must not cost much.
const FRESH_FOR: Duration = Duration::from_millis(100);

const ALIVE: &str = "ok";

type Looking = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Something that the work depends on.
pub struct Check {
    name: String,
    look: Box<dyn Fn() -> Looking + Send + Sync>,
}

impl Check {
    /// `look` answers why `name` cannot be used, in words for everybody: no secret, no address.
    pub fn new<F>(name: impl Into<String>, look: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        Self {
            name: name.into(),
            look: Box::new(move || Box::pin(look())),
        }
    }

    /// Why not, if so.
    async fn problem(&self) -> Option<String> {
        let looked = timeout(CHECK_LIMIT, (self.look)()).await;
        let late = || Err(format!("no answer within {CHECK_LIMIT:?}"));
        let problem = looked.unwrap_or_else(|_| late()).err()?;
        Some(format!("{}: {problem}", self.name))
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Check({})", self.name)
    }
}

/// Whether the process can do its work. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Readiness(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Empty until the process has started.
    checks: OnceLock<Vec<Arc<Check>>>,
    /// What the start waits for.
    start: &'static str,
    stopping: CancellationToken,
    last: Mutex<Option<(Instant, Vec<String>)>>,
}

impl Readiness {
    /// Ready when all `checks` pass, until `stopping`.
    #[must_use]
    pub fn new(checks: Vec<Check>, stopping: CancellationToken) -> Self {
        let readiness = Self::starting("", stopping);
        readiness.started(checks);
        readiness
    }

    /// Not ready until [`Self::started`] is called. `start` is what the process waits for until then.
    #[must_use]
    pub fn starting(start: &'static str, stopping: CancellationToken) -> Self {
        Self(Arc::new(Inner {
            checks: OnceLock::new(),
            start,
            stopping,
            last: Mutex::new(None),
        }))
    }

    /// The process has started. From now on it is ready when all `checks` pass. To be called once.
    pub fn started(&self, checks: Vec<Check>) {
        let checks = checks.into_iter().map(Arc::new).collect();
        let _ = self.0.checks.set(checks);
    }

    /// `ok`, or `starting`: the process is alive.
    #[must_use]
    pub fn alive(&self) -> &'static str {
        match self.0.checks.get() {
            Some(_) => ALIVE,
            None => "starting",
        }
    }

    /// Whether somebody has asked the process to stop.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.0.stopping.is_cancelled()
    }

    /// 200 `ready`, or 503 with a line for each reason.
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
        // Whoever asks meanwhile waits for this answer instead of looking as well.
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

/// 200 `ok`: whoever can answer serves.
pub async fn alive() -> &'static str {
    ALIVE
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
        assert_eq!(asked(&readiness).await, answer);
        readiness.started(Vec::new());
        assert_eq!(readiness.alive(), "ok");
        assert_eq!(asked(&readiness).await, (200, "ready".to_owned()));
    }

    async fn asked(readiness: &Readiness) -> (u16, String) {
        let answer = readiness.answer().await;
        let status = answer.status().as_u16();
        let body = axum::body::to_bytes(answer.into_body(), 1000).await;
        (status, String::from_utf8(body.unwrap().to_vec()).unwrap())
    }

    #[tokio::test]
    async fn whoever_is_not_ready_says_why() {
        let fine = Check::new("one", async || Ok(()));
        let broken = Check::new("two", async || Err("away".to_owned()));
        let stopping = CancellationToken::new();
        let readiness = Readiness::new(vec![fine], stopping.clone());
        assert_eq!(asked(&readiness).await, (200, "ready".to_owned()));
        stopping.cancel();
        let said = (503, "not ready\nstopping\n".to_owned());
        assert_eq!(asked(&readiness).await, said);
        let readiness = Readiness::new(vec![broken], CancellationToken::new());
        let said = (503, "not ready\ntwo: away\n".to_owned());
        assert_eq!(asked(&readiness).await, said);
    }

    #[tokio::test(start_paused = true)]
    async fn many_who_ask_cost_one_look_and_a_look_is_bounded() {
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&looks);
        let slow = Check::new("slow", move || {
            counted.fetch_add(1, Ordering::Relaxed);
            std::future::pending()
        });
        let readiness = Readiness::new(vec![slow], CancellationToken::new());
        let asking: Vec<_> = (0..20)
            .map(|_| {
                let readiness = readiness.clone();
                tokio::spawn(async move { asked(&readiness).await })
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
