//! Look-ups of tokens, limits and API keys, with the last known answer as a fallback.
//!
//! All three are stored in one Redis, or on one server of a cluster. While that is unavailable, requests for
//! jobs on other servers use the last answers (`docs/decisions/0038-last-known-tokens.md`).
//!
//! Requests rarely wait for Redis: an answer is fresh for a second, and a request in the second half of it starts a
//! refresh in a task.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus::{IntCounter, IntCounterVec};
use quick_cache::Equivalent;
use tidegate_daemon::LogLimit;
use tidegate_daemon::metrics::counters;
use tidegate_store::StoreError;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout, timeout_at};

use crate::access::tokens::memory::{
    AnswerCache, CachedAnswer, CachedName, JoinedRefresh, KEPT_FOR, Refresh, RefreshAnswer,
};
use crate::metrics::storage_failure::record_store_error;

static USES: LazyLock<IntCounterVec> = LazyLock::new(|| {
    counters(
        "tidegate_last_known_answers_total",
        "Number of times that a request used the last known answer about a token, limit or API key, because its Redis did not answer in time.",
        &["subject"],
    )
});

/// How long a request waits for a refresh before it uses the last answer. Later requests with this token do not wait
/// until Redis has answered in time again, or 10 s after a late answer.
const ANSWER_PATIENCE: Duration = Duration::from_millis(500);
/// How long a request waits for Redis if there is no last answer.
const FIRST_ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// The age up to which [`LastKnown::learn`] does not look up an answer again.
const LEARNED_FOR: Duration = Duration::from_secs(60);
/// The pause after a failed look-up of [`LastKnown::learn`], for each token.
const LEARN_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The least time between two warnings.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// An answer that is looked up in Redis.
pub(crate) trait LookUp: Clone + Send + Sync + 'static {
    /// Its name in logs and metrics.
    const SUBJECT: &'static str;

    /// The name by which it is looked up.
    type Name: CachedName + Debug;

    type Answer: Clone + Debug + Send + Sync;

    /// Asks Redis. Returns `None` if there is nothing to cache.
    fn look_up(
        &self,
        name: &Self::Name,
    ) -> impl Future<Output = Result<Option<Self::Answer>, StoreError>> + Send;
}

/// A borrowed form of a name. A look-up in the cache by it does not allocate.
pub(crate) trait BorrowedName<K>: Copy + Hash + Equivalent<K> + Into<K> {}

impl<K, Q: Copy + Hash + Equivalent<K> + Into<K>> BorrowedName<K> for Q {}

/// Answers of Redis, cached.
#[derive(Debug)]
pub(crate) struct LastKnown<L: LookUp>(Arc<LastKnownInner<L>>);

#[derive(Debug)]
struct LastKnownInner<L: LookUp> {
    redis: L,
    memory: AnswerCache<L::Name, L::Answer>,
    /// The names with a look-up of [`LastKnown::learn`] in flight, or a failed one just before.
    prefetching: Mutex<HashSet<L::Name>>,
    outage: OutageLog,
    /// For look-ups, which serve requests of all threads.
    runtime: Handle,
}

/// Logs and counts the use of last answers.
#[derive(Debug)]
struct OutageLog {
    /// The kind of answer, for logs and metrics.
    subject: &'static str,
    uses: IntCounter,
    is_logged: AtomicBool,
    warnings: LogLimit,
}

impl<L: LookUp> LastKnown<L> {
    /// Must be called inside the runtime of the look-ups.
    pub(crate) fn new(redis: L) -> Self {
        Self(Arc::new(LastKnownInner {
            redis,
            memory: AnswerCache::new(),
            prefetching: Mutex::default(),
            runtime: Handle::current(),
            outage: OutageLog {
                subject: L::SUBJECT,
                uses: USES.with_label_values(&[L::SUBJECT]),
                is_logged: AtomicBool::new(false),
                warnings: LogLimit::every(WARNING_INTERVAL),
            },
        }))
    }

    /// The answer about a name: the cached answer for a second, then the answer of Redis. While Redis is unavailable or
    /// late, the last answer is returned, for up to an hour, and refreshed in a task.
    ///
    /// # Errors
    /// Redis is unavailable, and there is no answer of the last hour. Or the stored data is corrupt.
    pub(crate) async fn get(
        &self,
        name: impl BorrowedName<L::Name>,
    ) -> Result<Option<L::Answer>, StoreError> {
        match self.0.memory.get(&name, Instant::now()) {
            Some(CachedAnswer::Fresh(value)) => Ok(Some(value)),
            Some(CachedAnswer::Aging(value)) => {
                self.refresh(name);
                Ok(Some(value))
            }
            Some(CachedAnswer::Old(last)) => match self.0.memory.join_refresh(&name) {
                Some(JoinedRefresh::Refresh(refresh, sender)) => {
                    if let Some(sender) = sender {
                        self.begin(name, sender);
                    }
                    self.await_refresh(refresh, last).await
                }
                Some(JoinedRefresh::Known(value)) => Ok(Some(value)),
                None => self.look_up_first(name).await,
            },
            Some(CachedAnswer::Unconfirmed(value)) => {
                self.refresh(name);
                self.0.outage.last_answer_used();
                Ok(Some(value))
            }
            None => self.look_up_first(name).await,
        }
    }

    /// Looks up a name that is not cached. Boxed, as it is rare: the future of each request, and of each consumer that
    /// waits for minutes, has room for all that it may await.
    fn look_up_first(
        &self,
        name: impl BorrowedName<L::Name>,
    ) -> Pin<Box<impl Future<Output = Result<Option<L::Answer>, StoreError>>>> {
        let name = name.into();
        Box::pin(async move {
            let learning = self.0.learn(&name);
            match timeout(FIRST_ANSWER_PATIENCE, learning).await {
                Ok(answer) => answer,
                Err(_) => Err(StoreError::timed_out(FIRST_ANSWER_PATIENCE)),
            }
        })
    }

    /// Looks up a name in a task, unless there is a recent answer, so that later requests can use it as the last
    /// answer. The caller does not wait.
    pub(crate) fn learn(&self, name: impl BorrowedName<L::Name>) {
        if self.0.memory.is_younger_than(&name, LEARNED_FOR) {
            return;
        }
        let name = name.into();
        if !self.0.prefetching.lock().insert(name.clone()) {
            return;
        }
        let inner = Arc::clone(&self.0);
        self.0.runtime.spawn(async move {
            if inner.learn(&name).await.is_err() {
                sleep(LEARN_RETRY_INTERVAL).await;
            }
            inner.prefetching.lock().remove(&name);
        });
    }

    /// Refreshes a cached answer in a task, if that is due and no refresh is in flight.
    pub(crate) fn refresh(&self, name: impl BorrowedName<L::Name>) {
        if let Some(sender) = self.0.memory.begin_refresh(&name) {
            self.begin(name, sender);
        }
    }

    fn begin(
        &self,
        name: impl BorrowedName<L::Name>,
        sender: watch::Sender<RefreshAnswer<L::Answer>>,
    ) {
        let inner = Arc::clone(&self.0);
        let name = name.into();
        let refreshing = async move { inner.refresh(&name, sender).await };
        self.0.runtime.spawn(refreshing);
    }

    /// Waits for a refresh, for at most [`ANSWER_PATIENCE`] from its start. Returns `last` if Redis fails or is late.
    async fn await_refresh(
        &self,
        mut refresh: Refresh<L::Answer>,
        last: L::Answer,
    ) -> Result<Option<L::Answer>, StoreError> {
        let deadline = refresh.began_at + ANSWER_PATIENCE;
        let answered = refresh.answer.wait_for(Option::is_some);
        let answer = match timeout_at(deadline.into(), answered).await {
            Ok(Ok(answer)) => answer.clone(),
            // Redis is late, or the task of the refresh ended without an answer.
            Err(_) | Ok(Err(_)) => None,
        };
        match answer {
            None | Some(Err(StoreError::Unavailable { .. })) => {
                self.0.outage.last_answer_used();
                Ok(Some(last))
            }
            Some(answer) => answer,
        }
    }

    /// Removes the cached answer about a name.
    pub(crate) fn forget(&self, name: impl BorrowedName<L::Name>) {
        self.0.memory.forget(&name);
    }
}

impl<L: LookUp> LastKnownInner<L> {
    /// Looks up a name and caches the answer.
    async fn learn(&self, name: &L::Name) -> Result<Option<L::Answer>, StoreError> {
        let asked_at = Instant::now();
        let answer = self.redis.look_up(name).await;
        match &answer {
            Ok(Some(value)) => self.memory.insert(name.clone(), value.clone(), asked_at),
            Ok(None) => self.memory.forget(name),
            Err(_) => {}
        }
        self.record_answer(&answer);
        answer
    }

    /// Runs a refresh and records its answer.
    async fn refresh(&self, name: &L::Name, sender: watch::Sender<RefreshAnswer<L::Answer>>) {
        let asked_at = Instant::now();
        let answer = self.redis.look_up(name).await;
        match &answer {
            Ok(Some(value)) => {
                let is_late = asked_at.elapsed() > ANSWER_PATIENCE;
                self.memory.confirm(name, value.clone(), asked_at, is_late);
            }
            Ok(None) => self.memory.forget(name),
            Err(_) => self.memory.failed(name),
        }
        self.record_answer(&answer);
        sender.send_replace(Some(answer));
    }

    fn record_answer(&self, answer: &Result<Option<L::Answer>, StoreError>) {
        match answer {
            Ok(_) => self.outage.end(),
            Err(error) => record_store_error(error),
        }
    }
}

impl OutageLog {
    fn last_answer_used(&self) {
        self.uses.inc();
        if self.warnings.is_due() {
            self.is_logged.store(true, Ordering::Relaxed);
            tracing::warn!(
                subject = self.subject,
                "look-ups in redis fail or take too long; requests use the last answers, for up to {KEPT_FOR:?}"
            );
        }
    }

    fn end(&self) {
        if self.is_logged.load(Ordering::Relaxed) && self.is_logged.swap(false, Ordering::Relaxed) {
            tracing::info!(subject = self.subject, "redis answers again");
        }
    }
}
