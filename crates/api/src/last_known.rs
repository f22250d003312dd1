//! What Redis says about a token, or what it said last while it does not answer.
//!
//! Tokens and limits are stored in one Redis, or on one server of a cluster. While that is unavailable, requests for jobs on
//! other servers are served by the last answers (`docs/decisions/0038-last-known-tokens.md`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use metrics::{Counter, counter, describe_counter};
use tidegate_store::{LimitHolder, StoreError};
use tokio::time::timeout;

use crate::metrics::storage_failed;
use crate::token_memory::{KEPT_FOR, Known, TokenMemory, TokenName};

const USES: &str = "tidegate_last_known_answers_total";

/// How long a request waits for Redis before it is served by the last answer. Later requests with this token do not
/// wait until Redis has answered again.
const ANSWER_PATIENCE: Duration = Duration::from_millis(500);
/// How long a request waits for Redis where there is no last answer.
const FIRST_ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// The shortest time between two warnings.
const WARNING_INTERVAL_S: u64 = 10;

/// Says once per process what the metric means.
pub(crate) fn describe() {
    describe_counter!(
        USES,
        "Number of requests that were served by the last known answer about a token, because its Redis did not answer."
    );
}

/// What Redis says about tokens. Cheap to clone.
#[derive(Debug)]
pub(crate) struct LastKnown<V>(Arc<Inner<V>>);

#[derive(Debug)]
struct Inner<V> {
    memory: TokenMemory<V>,
    outage: Outage,
}

/// What is logged and counted of a time without answers.
#[derive(Debug)]
struct Outage {
    /// What is asked for, in logs and metrics.
    subject: &'static str,
    uses: Counter,
    is_logged: AtomicBool,
    began_at: Instant,
    warned_at_s: AtomicU64,
}

impl<V> Clone for LastKnown<V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<V: Copy + Send + Sync + 'static> LastKnown<V> {
    /// `subject` is what is asked for, in logs and metrics.
    pub(crate) fn new(subject: &'static str) -> Self {
        Self(Arc::new(Inner {
            memory: TokenMemory::new(),
            outage: Outage {
                subject,
                uses: counter!(USES, "subject" => subject),
                is_logged: AtomicBool::new(false),
                began_at: Instant::now(),
                warned_at_s: AtomicU64::new(0),
            },
        }))
    }

    /// What is known of a token: for a second what `ask` answered last, then what it answers now. While Redis is
    /// unavailable its last answer counts, for an hour; it is asked behind the request.
    ///
    /// `ask` answers `None` where there is nothing to remember.
    ///
    /// # Errors
    /// Redis is unavailable, and has not been asked within an hour. Or it holds what cannot be.
    pub(crate) async fn get<F>(
        &self,
        name: TokenName<'_>,
        ask: impl FnOnce(LimitHolder) -> F,
    ) -> Result<Option<V>, StoreError>
    where
        F: Future<Output = Result<Option<V>, StoreError>> + Send + 'static,
    {
        let refresh = |holder: LimitHolder| {
            let inner = Arc::clone(&self.0);
            let asking = ask(holder.clone());
            async move { inner.refresh(&holder, asking).await }
        };
        match self.0.memory.get(name) {
            Some(Known::Fresh(value)) => Ok(Some(value)),
            None => match timeout(FIRST_ANSWER_PATIENCE, refresh(name.holder())).await {
                Ok(answer) => answer,
                Err(_) => Err(StoreError::timed_out(FIRST_ANSWER_PATIENCE)),
            },
            Some(Known::Old(value)) => {
                // In a task: it goes on after the patience of this request.
                let refreshing = tokio::spawn(refresh(name.holder()));
                match timeout(ANSWER_PATIENCE, refreshing).await {
                    Ok(Ok(Err(StoreError::Unavailable { .. }))) => {}
                    Ok(Ok(answer)) => return answer,
                    // Only a runtime that shuts down ends the task early.
                    Ok(Err(_)) => {}
                    Err(_) => self.0.memory.failed(name),
                }
                self.0.outage.served_by_last_answer();
                Ok(Some(value))
            }
            Some(Known::Unconfirmed(value)) => {
                if self.0.memory.begin_retry(name) {
                    tokio::spawn(refresh(name.holder()));
                }
                self.0.outage.served_by_last_answer();
                Ok(Some(value))
            }
        }
    }

    /// Forgets what was said of a token.
    pub(crate) fn forget(&self, name: TokenName<'_>) {
        self.0.memory.forget(name);
    }
}

impl<V: Copy> Inner<V> {
    async fn refresh(
        &self,
        holder: &LimitHolder,
        asking: impl Future<Output = Result<Option<V>, StoreError>>,
    ) -> Result<Option<V>, StoreError> {
        let (name, asked_at) = (TokenName::of_holder(holder), Instant::now());
        let answer = asking.await;
        match &answer {
            Ok(Some(value)) => self.memory.insert(name, *value, asked_at),
            Ok(None) => self.memory.forget(name),
            Err(error) => {
                storage_failed(error);
                self.memory.failed(name);
            }
        }
        if answer.is_ok() {
            self.outage.is_over();
        }
        answer
    }
}

impl Outage {
    fn served_by_last_answer(&self) {
        self.uses.increment(1);
        let now_s = self.began_at.elapsed().as_secs() + WARNING_INTERVAL_S;
        let last_s = self.warned_at_s.load(Ordering::Relaxed);
        let is_due = now_s >= last_s + WARNING_INTERVAL_S
            && self
                .warned_at_s
                .compare_exchange(last_s, now_s, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if is_due {
            self.is_logged.store(true, Ordering::Relaxed);
            tracing::warn!(
                subject = self.subject,
                "redis does not answer; requests are served by its last answers, which count for {KEPT_FOR:?}"
            );
        }
    }

    fn is_over(&self) {
        if self.is_logged.load(Ordering::Relaxed) && self.is_logged.swap(false, Ordering::Relaxed) {
            tracing::info!(subject = self.subject, "redis answers again");
        }
    }
}
