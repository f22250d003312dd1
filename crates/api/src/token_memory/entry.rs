//! What is remembered of one token, and how long it counts.

use std::time::{Duration, Instant};

use tidegate_store::StoreError;
use tokio::sync::watch;

use super::{Known, TokenName};

/// What Redis said counts for this long.
pub(super) const FRESH_FOR: Duration = Duration::from_secs(1);
/// From this age on it is asked again, behind the request.
pub(super) const REFRESH_FROM: Duration = Duration::from_millis(500);
/// So long after a late answer requests do not wait for the next one.
pub(super) const LATE_FOR: Duration = Duration::from_secs(10);
/// Between two questions about a token while Redis does not answer.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// What Redis answered; `None` until it has.
pub(crate) type Answer<V> = Option<Result<Option<V>, StoreError>>;

/// A question about a token that is in flight. It has ended when its sender is dropped.
#[derive(Debug)]
pub(crate) struct Refresh<V> {
    pub(crate) began_at: Instant,
    pub(crate) answer: watch::Receiver<Answer<V>>,
}

/// How a request gets a newer answer.
#[derive(Debug)]
pub(crate) enum Joined<V> {
    /// It waits for a question. Where that is not in flight yet, the caller asks it, and drops the sender behind it.
    Refresh(Refresh<V>, Option<watch::Sender<Answer<V>>>),
    /// Redis has just answered or failed to. This is known now.
    Known(V),
}

/// What was wrong with the last answer.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    /// None came.
    Failed(Instant),
    /// It came late.
    Late(Instant),
}

#[derive(Debug)]
pub(super) struct Entry<V> {
    pool: Box<str>,
    namespace: Box<str>,
    token: Box<str>,
    value: V,
    /// When Redis was asked.
    asked_at: Instant,
    /// What was wrong with the last answer.
    trouble: Option<Trouble>,
    /// The question that is in flight.
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

impl Trouble {
    /// Whether requests are served by the last answer without a wait.
    fn counts(self, now: Instant) -> bool {
        match self {
            Self::Failed(_) => true,
            Self::Late(at) => now.saturating_duration_since(at) < LATE_FOR,
        }
    }

    /// Whether it is too early to ask again.
    fn is_recent(self, now: Instant) -> bool {
        match self {
            Self::Failed(at) => now.saturating_duration_since(at) < RETRY_INTERVAL,
            Self::Late(_) => false,
        }
    }
}

impl<V> Entry<V> {
    pub(super) fn new(name: TokenName<'_>, value: V, asked_at: Instant) -> Self {
        Self {
            pool: name.pool.into(),
            namespace: name.namespace.into(),
            token: name.token.into(),
            value,
            asked_at,
            trouble: None,
            refresh: None,
        }
    }

    pub(super) fn name(&self) -> TokenName<'_> {
        TokenName {
            pool: &self.pool,
            namespace: &self.namespace,
            token: &self.token,
        }
    }

    pub(super) fn is_younger_than(&self, age: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.asked_at) < age
    }

    /// Whether it is time to ask again.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.is_younger_than(REFRESH_FROM, now)
            && !self.refresh.as_ref().is_some_and(Refresh::is_running)
            && !self.trouble.is_some_and(|trouble| trouble.is_recent(now))
    }

    /// Begins to ask again, if it is time.
    pub(super) fn begin_refresh(&mut self) -> Option<watch::Sender<Answer<V>>> {
        let began_at = Instant::now();
        self.is_due(began_at).then(|| {
            let (sender, answer) = watch::channel(None);
            self.refresh = Some(Refresh { began_at, answer });
            sender
        })
    }

    /// Redis said this when it was asked at this time. An older answer than the one that is kept changes nothing.
    pub(super) fn confirm(&mut self, value: V, asked_at: Instant, is_late: bool) {
        self.refresh = None;
        if self.asked_at < asked_at {
            self.value = value;
            self.asked_at = asked_at;
            self.trouble = is_late.then(|| Trouble::Late(Instant::now()));
        }
    }

    /// Redis was asked, and has not answered.
    pub(super) fn failed(&mut self) {
        self.refresh = None;
        self.trouble = Some(Trouble::Failed(Instant::now()));
    }
}

impl<V: Copy> Entry<V> {
    /// The question that is in flight, or a new one.
    pub(super) fn join_refresh(&mut self) -> Joined<V> {
        let sender = self.begin_refresh();
        match &self.refresh {
            Some(refresh) => Joined::Refresh(refresh.clone(), sender),
            None => Joined::Known(self.value),
        }
    }

    /// What the entry is good for at this time.
    pub(super) fn known(&self, now: Instant) -> Known<V> {
        let is_fresh = self.is_younger_than(FRESH_FOR, now);
        match self.trouble {
            _ if is_fresh && self.is_due(now) => Known::Aging(self.value),
            _ if is_fresh => Known::Fresh(self.value),
            Some(trouble) if trouble.counts(now) => Known::Unconfirmed(self.value),
            _ => Known::Old(self.value),
        }
    }
}
