//! What Redis says about a token, or what it said last while it does not answer.
//!
//! Tokens and limits are stored in one Redis, or on one server of a cluster. While that is unavailable, requests for jobs on
//! other servers are served by the last answers (`docs/decisions/0038-last-known-tokens.md`).
//!
//! Requests wait for Redis as rarely as they may: an answer counts for a second, and is asked for again behind a request that
//! comes in the second half of it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use metrics::{Counter, counter, describe_counter};
use tidegate_store::{LimitHolder, StoreError};
use tokio::sync::watch;
use tokio::time::{sleep, timeout, timeout_at};

use crate::metrics::storage_failed;
use crate::token_memory::{Answer, Joined, KEPT_FOR, Known, Refresh, TokenMemory, TokenName};

const USES: &str = "tidegate_last_known_answers_total";

/// How long Redis may take before requests are served by the last answer. Later requests with this token do not wait until
/// Redis has answered in time again.
const ANSWER_PATIENCE: Duration = Duration::from_millis(500);
/// How long a request waits for Redis where there is no last answer.
const FIRST_ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// How old an answer may be that [`LastKnown::learn`] leaves as it is.
const LEARNED_FOR: Duration = Duration::from_secs(60);
/// After Redis has failed to answer [`LastKnown::learn`] it is not asked about this token for so long.
const LEARN_RETRY_INTERVAL: Duration = Duration::from_secs(1);
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
    /// Tokens that Redis is asked about before any request needs the answer.
    learning: Mutex<HashSet<LimitHolder>>,
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
            learning: Mutex::default(),
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
    /// unavailable or late its last answer counts, for an hour; it is asked behind the request.
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
        match self.0.memory.get(name) {
            Some(Known::Fresh(value)) => Ok(Some(value)),
            Some(Known::Aging(value)) => {
                self.refresh(name, ask);
                Ok(Some(value))
            }
            Some(Known::Old(last)) => match self.0.memory.join_refresh(name) {
                Some(Joined::Refresh(refresh, sender)) => {
                    if let Some(sender) = sender {
                        self.begin(name, ask, sender);
                    }
                    self.refreshed(refresh, last).await
                }
                Some(Joined::Known(value)) => Ok(Some(value)),
                None => self.first(name, ask).await,
            },
            Some(Known::Unconfirmed(value)) => {
                self.refresh(name, ask);
                self.0.outage.served_by_last_answer();
                Ok(Some(value))
            }
            None => self.first(name, ask).await,
        }
    }

    /// What Redis answers about a token of which nothing is known.
    async fn first<F>(
        &self,
        name: TokenName<'_>,
        ask: impl FnOnce(LimitHolder) -> F,
    ) -> Result<Option<V>, StoreError>
    where
        F: Future<Output = Result<Option<V>, StoreError>>,
    {
        let holder = name.holder();
        let asking = ask(holder.clone());
        match timeout(FIRST_ANSWER_PATIENCE, self.0.learn(&holder, asking)).await {
            Ok(answer) => answer,
            Err(_) => Err(StoreError::timed_out(FIRST_ANSWER_PATIENCE)),
        }
    }

    /// Asks about a token unless something is known of it, so that later requests can be served by the last answer. In
    /// a task: the caller does not wait.
    pub(crate) fn learn<F>(&self, name: TokenName<'_>, ask: impl FnOnce(LimitHolder) -> F)
    where
        F: Future<Output = Result<Option<V>, StoreError>> + Send + 'static,
    {
        if self.0.memory.was_told_within(name, LEARNED_FOR) {
            return;
        }
        let holder = name.holder();
        if !self.0.learning().insert(holder.clone()) {
            return;
        }
        let inner = Arc::clone(&self.0);
        let asking = ask(holder.clone());
        tokio::spawn(async move {
            if inner.learn(&holder, asking).await.is_err() {
                sleep(LEARN_RETRY_INTERVAL).await;
            }
            inner.learning().remove(&holder);
        });
    }

    /// Asks again about a token of which something is known, in a task, if it is time and no other request has begun to.
    pub(crate) fn refresh<F>(&self, name: TokenName<'_>, ask: impl FnOnce(LimitHolder) -> F)
    where
        F: Future<Output = Result<Option<V>, StoreError>> + Send + 'static,
    {
        if !self.0.memory.is_due(name) {
            return;
        }
        if let Some(sender) = self.0.memory.begin_refresh(name) {
            self.begin(name, ask, sender);
        }
    }

    fn begin<F>(
        &self,
        name: TokenName<'_>,
        ask: impl FnOnce(LimitHolder) -> F,
        sender: watch::Sender<Answer<V>>,
    ) where
        F: Future<Output = Result<Option<V>, StoreError>> + Send + 'static,
    {
        let inner = Arc::clone(&self.0);
        let holder = name.holder();
        let asking = ask(holder.clone());
        tokio::spawn(async move { inner.refresh(&holder, asking, sender).await });
    }

    /// Waits until Redis has been asked again, or has had its time to answer.
    async fn refreshed(&self, mut refresh: Refresh<V>, last: V) -> Result<Option<V>, StoreError> {
        let deadline = refresh.began_at + ANSWER_PATIENCE;
        let answered = refresh.answer.wait_for(Option::is_some);
        let answer = match timeout_at(deadline.into(), answered).await {
            Ok(Ok(answer)) => answer.clone(),
            // Redis is late, or the runtime shuts down.
            Err(_) | Ok(Err(_)) => None,
        };
        match answer {
            None | Some(Err(StoreError::Unavailable { .. })) => {
                self.0.outage.served_by_last_answer();
                Ok(Some(last))
            }
            Some(answer) => answer,
        }
    }

    /// Forgets what was said of a token.
    pub(crate) fn forget(&self, name: TokenName<'_>) {
        self.0.memory.forget(name);
    }
}

impl<V: Copy> Inner<V> {
    fn learning(&self) -> MutexGuard<'_, HashSet<LimitHolder>> {
        self.learning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks about a token of which nothing is known.
    async fn learn(
        &self,
        holder: &LimitHolder,
        asking: impl Future<Output = Result<Option<V>, StoreError>>,
    ) -> Result<Option<V>, StoreError> {
        let (name, asked_at) = (TokenName::of_holder(holder), Instant::now());
        let answer = asking.await;
        match &answer {
            Ok(Some(value)) => self.memory.insert(name, *value, asked_at),
            Ok(None) => self.memory.forget(name),
            Err(_) => {}
        }
        self.note(&answer);
        answer
    }

    /// Asks again about a token.
    async fn refresh(
        &self,
        holder: &LimitHolder,
        asking: impl Future<Output = Result<Option<V>, StoreError>>,
        sender: watch::Sender<Answer<V>>,
    ) {
        let (name, asked_at) = (TokenName::of_holder(holder), Instant::now());
        let answer = asking.await;
        match &answer {
            Ok(Some(value)) => {
                let is_late = asked_at.elapsed() > ANSWER_PATIENCE;
                self.memory.confirm(name, *value, asked_at, is_late);
            }
            Ok(None) => self.memory.forget(name),
            Err(_) => self.memory.failed(name),
        }
        self.note(&answer);
        sender.send_replace(Some(answer));
    }

    fn note(&self, answer: &Result<Option<V>, StoreError>) {
        match answer {
            Ok(_) => self.outage.is_over(),
            Err(error) => storage_failed(error),
        }
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
