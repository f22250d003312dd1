//! One cached answer, and its states.

use std::time::{Duration, Instant};

use tidegate_store::StoreError;
use tokio::sync::watch;

use super::CachedAnswer;

/// How long an answer is fresh.
pub(super) const FRESH_FOR: Duration = Duration::from_secs(1);
/// The age from which on a request refreshes the answer, in a task.
pub(super) const REFRESH_FROM: Duration = Duration::from_millis(500);
/// How long after a late answer requests do not wait for the next one.
pub(super) const LATE_FOR: Duration = Duration::from_secs(10);
/// The least pause between a failed refresh of a token and the next one.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// The answer of Redis to a refresh; `None` until it has arrived.
pub(crate) type RefreshAnswer<V> = Option<Result<Option<V>, StoreError>>;

/// A refresh in flight. It has ended when its sender is dropped.
#[derive(Debug)]
pub(crate) struct Refresh<V> {
    pub(crate) began_at: Instant,
    pub(crate) answer: watch::Receiver<RefreshAnswer<V>>,
}

/// How a request gets a newer answer than the cached one.
#[derive(Debug)]
pub(crate) enum JoinedRefresh<V> {
    /// It waits for this refresh. With a sender, the caller must run the refresh, and drop the sender at its end.
    Refresh(Refresh<V>, Option<watch::Sender<RefreshAnswer<V>>>),
    /// Redis has just answered or failed. This is the cached answer.
    Known(V),
}

/// A problem with the last refresh.
#[derive(Debug, Clone, Copy)]
enum RefreshProblem {
    /// It failed at this time.
    Failed(Instant),
    /// Its answer was late, and arrived at this time.
    Late(Instant),
}

#[derive(Debug)]
pub(super) struct CacheEntry<V> {
    value: V,
    /// When Redis was asked for `value`.
    asked_at: Instant,
    /// The problem with the last refresh, if any.
    problem: Option<RefreshProblem>,
    /// The refresh in flight.
    refresh: Option<Refresh<V>>,
}

impl<V> Clone for Refresh<V> {
    fn clone(&self) -> Self {
        Self {
            began_at: self.began_at,
            answer: self.answer.clone(),
        }
    }
}

impl<V> Refresh<V> {
    fn is_running(&self) -> bool {
        self.answer.has_changed().is_ok()
    }
}

impl RefreshProblem {
    /// Whether requests use the cached answer without waiting for a refresh.
    fn counts(self, now: Instant) -> bool {
        match self {
            Self::Failed(_) => true,
            Self::Late(at) => now.saturating_duration_since(at) < LATE_FOR,
        }
    }

    /// Whether it is too early for another refresh.
    fn is_recent(self, now: Instant) -> bool {
        match self {
            Self::Failed(at) => now.saturating_duration_since(at) < RETRY_INTERVAL,
            Self::Late(_) => false,
        }
    }
}

impl<V> CacheEntry<V> {
    pub(super) fn new(value: V, asked_at: Instant) -> Self {
        Self {
            value,
            asked_at,
            problem: None,
            refresh: None,
        }
    }

    /// The age of the answer.
    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.asked_at)
    }

    /// Whether a refresh is due.
    fn is_due(&self, now: Instant) -> bool {
        self.age(now) >= REFRESH_FROM
            && !self.refresh.as_ref().is_some_and(Refresh::is_running)
            && !self.problem.is_some_and(|trouble| trouble.is_recent(now))
    }

    /// Begins a refresh, if it is due.
    pub(super) fn begin_refresh(&mut self) -> Option<watch::Sender<RefreshAnswer<V>>> {
        let began_at = Instant::now();
        self.is_due(began_at).then(|| {
            let (sender, answer) = watch::channel(None);
            self.refresh = Some(Refresh { began_at, answer });
            sender
        })
    }

    /// Records the answer to a refresh, for which Redis was asked at `asked_at`. An answer older than the cached answer
    /// is ignored.
    pub(super) fn confirm(&mut self, value: V, asked_at: Instant, is_late: bool) {
        self.refresh = None;
        if self.asked_at < asked_at {
            self.value = value;
            self.asked_at = asked_at;
            self.problem = is_late.then(|| RefreshProblem::Late(Instant::now()));
        }
    }

    /// Records that a refresh failed.
    pub(super) fn failed(&mut self) {
        self.refresh = None;
        self.problem = Some(RefreshProblem::Failed(Instant::now()));
    }
}

impl<V: Clone> CacheEntry<V> {
    /// The refresh in flight, or a new one.
    pub(super) fn join_refresh(&mut self) -> JoinedRefresh<V> {
        let sender = self.begin_refresh();
        match &self.refresh {
            Some(refresh) => JoinedRefresh::Refresh(refresh.clone(), sender),
            None => JoinedRefresh::Known(self.value.clone()),
        }
    }

    /// The cached answer, and its state at this time.
    pub(super) fn known(&self, now: Instant) -> CachedAnswer<V> {
        let (age, value) = (self.age(now), self.value.clone());
        match self.problem {
            _ if age < FRESH_FOR && self.is_due(now) => CachedAnswer::Aging(value),
            _ if age < FRESH_FOR => CachedAnswer::Fresh(value),
            Some(trouble) if trouble.counts(now) => CachedAnswer::Unconfirmed(value),
            _ => CachedAnswer::Old(value),
        }
    }
}
