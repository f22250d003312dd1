//! Rate limits: how often a token may consume and publish, and the units that it has taken.
//!
//! Limits are the fields of one hash. Units are counted in a window that begins with the first unit and is identified
//! by its begin, so that a unit is given back to its own window only.

mod lost_replies;

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use redis::Cmd;
use tidegate_core::keys;

use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;
use lost_replies::{CallId, LostReplies};

static LIMITS_TAKE: LazyScript = script!("limits_take");
static LIMITS_GIVE_BACK: LazyScript = script!("limits_give_back");

/// The rate limits stored in one deployment. Cheap to clone; clones share the list of units to be given back.
#[derive(Debug, Clone)]
pub struct RateLimits {
    store: Store,
    lost: Arc<LostReplies>,
}

/// A token of a namespace in a pool. A limit belongs to all three together.
#[derive(Clone, PartialEq, Eq)]
pub struct LimitHolder {
    /// Pool, namespace and token as one unambiguous text.
    name: String,
}

/// Number of requests that may succeed within a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Consumes; 0 or less = unlimited.
    pub read: i64,
    /// Publishes; 0 or less = unlimited.
    pub write: i64,
    /// The length of a window, in seconds.
    pub interval_seconds: u32,
}

/// The kind of request that a unit is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LimitSide {
    /// A consume.
    Read,
    /// A publish.
    Write,
}

/// A unit of a window: the right to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitUnit {
    side: LimitSide,
    window: u64,
    call: CallId,
}

/// The outcome of [`RateLimits::take`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum UnitTaken {
    /// A unit was taken.
    Done(LimitUnit),
    /// All units of the current window are taken.
    OverLimit,
}

/// The outcome of [`RateLimits::create`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum LimitCreated {
    /// The limit is in effect from now on.
    Done,
    /// The token already has a limit; nothing changed.
    AlreadyExists,
}

impl LimitHolder {
    /// A token in a namespace and pool. The pool must not contain a colon, the namespace no slash.
    pub fn new(pool: &str, namespace: &str, token: &str) -> Self {
        let name = keys::limit_holder(pool, namespace, token);
        Self { name }
    }

    fn from_name(name: String) -> Option<Self> {
        let is_whole = name
            .split_once(':')
            .is_some_and(|(_, rest)| rest.contains('/'));
        is_whole.then_some(Self { name })
    }

    /// Pool, namespace and token.
    pub fn parts(&self) -> (&str, &str, &str) {
        let (pool, rest) = self.name.split_once(':').unwrap_or_default();
        let (namespace, token) = rest.split_once('/').unwrap_or_default();
        (pool, namespace, token)
    }
}

/// As a tuple of its parts, so that tables find it by borrowed parts.
impl Hash for LimitHolder {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

/// Shows pool and namespace. The token is a secret.
impl std::fmt::Debug for LimitHolder {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (pool, namespace, _) = self.parts();
        write!(out, "LimitHolder({pool}:{namespace}/…)")
    }
}

impl LimitSide {
    const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    fn key(self, holder: &LimitHolder) -> String {
        keys::limit_units(self.name(), &holder.name)
    }
}

impl RateLimit {
    /// The number of units of a window for this kind of request; `None` = unlimited.
    pub fn units(&self, side: LimitSide) -> Option<u64> {
        let units = match side {
            LimitSide::Read => self.read,
            LimitSide::Write => self.write,
        };
        u64::try_from(units).ok().filter(|units| *units > 0)
    }

    fn to_text(self) -> String {
        format!("{} {} {}", self.read, self.write, self.interval_seconds)
    }

    fn from_text(text: &str) -> Result<Self, StoreError> {
        let mut numbers = text.split(' ');
        let mut next = || numbers.next()?.parse::<i64>().ok();
        let parsed = (next(), next(), next().and_then(|it| u32::try_from(it).ok()));
        match parsed {
            (Some(read), Some(write), Some(interval_seconds)) => Ok(Self {
                read,
                write,
                interval_seconds,
            }),
            _ => Err(StoreError::corrupt(format!("invalid rate limit {text:?}"))),
        }
    }
}

impl RateLimits {
    /// Sets the limit of a token, unless it has one.
    ///
    /// # Errors
    /// Redis is unavailable. The change may have been made.
    pub async fn create(
        &self,
        holder: &LimitHolder,
        limit: RateLimit,
    ) -> Result<LimitCreated, StoreError> {
        let add = Cmd::hset_nx(keys::LIMITS, &holder.name, limit.to_text());
        match self.store.command(&add).await? {
            true => Ok(LimitCreated::Done),
            false => Ok(LimitCreated::AlreadyExists),
        }
    }

    /// Sets the limit of a token, and replaces an existing one. The current window continues.
    ///
    /// # Errors
    /// Redis is unavailable. The change may have been made.
    pub async fn set(&self, holder: &LimitHolder, limit: RateLimit) -> Result<(), StoreError> {
        let set = Cmd::hset(keys::LIMITS, &holder.name, limit.to_text());
        self.store.command(&set).await
    }

    /// The limit of a token, if it has one.
    ///
    /// # Errors
    /// Redis is unavailable, or the stored limit is invalid.
    pub async fn get(&self, holder: &LimitHolder) -> Result<Option<RateLimit>, StoreError> {
        let ask = Cmd::hget(keys::LIMITS, &holder.name);
        let text: Option<String> = self.store.command(&ask).await?;
        text.as_deref().map(RateLimit::from_text).transpose()
    }

    /// Removes the limit of a token. It is no error if there is none.
    ///
    /// # Errors
    /// Redis is unavailable. The change may have been made.
    pub async fn delete(&self, holder: &LimitHolder) -> Result<(), StoreError> {
        let remove = Cmd::hdel(keys::LIMITS, &holder.name);
        self.store.command(&remove).await
    }

    /// All limits, in the order of pools, namespaces and tokens.
    ///
    /// # Errors
    /// Redis is unavailable, or a stored limit is invalid.
    pub async fn list(&self) -> Result<Vec<(LimitHolder, RateLimit)>, StoreError> {
        let all = Cmd::hgetall(keys::LIMITS);
        let mut rows: Vec<(String, String)> = self.store.command(&all).await?;
        rows.sort();
        let parsed = rows.into_iter().map(|(name, text)| {
            let holder = LimitHolder::from_name(name)
                .ok_or_else(|| StoreError::corrupt("a rate limit whose field names no token"))?;
            Ok((holder, RateLimit::from_text(&text)?))
        });
        parsed.collect()
    }

    /// Takes one of `units_max` units of the current window, or of a new one. First it gives back units that earlier
    /// calls took whose replies were lost.
    ///
    /// # Errors
    /// Redis is unavailable. If the call has taken a unit nevertheless, a later call gives it back, unless 32 other
    /// calls have taken units of the window since.
    pub async fn take(
        &self,
        holder: &LimitHolder,
        side: LimitSide,
        units_max: u64,
        interval_seconds: u32,
    ) -> Result<UnitTaken, StoreError> {
        let key = side.key(holder);
        let call = CallId::random();
        let mut lost = self.lost.take_settled(&key);
        let ids = std::iter::once(&call).chain(&lost);
        let ids: Vec<&str> = ids.map(CallId::as_str).collect();
        let interval_ms = u64::from(interval_seconds) * 1000;
        let reply = self.store.call_before_deadline(&key, |latest| {
            let begun = self.store.call(&LIMITS_TAKE, key.clone());
            let begun = begun.arg(units_max).arg(interval_ms).arg(latest);
            begun.arg(&ids)
        });
        let mut reply = match reply.await {
            Ok((reply, _)) => reply,
            Err(error) => {
                if error.is_unreachable() {
                    lost.push(call);
                }
                self.give_back_later(&key, lost);
                return Err(error);
            }
        };
        match reply.token() {
            "ok" => Ok(UnitTaken::Done(LimitUnit {
                side,
                window: reply.count()?,
                call,
            })),
            "over" => Ok(UnitTaken::OverLimit),
            _ => reply.unknown(),
        }
    }

    /// Gives a unit back, if its window is still the current one.
    ///
    /// # Errors
    /// Redis is unavailable; a later call gives the unit back, or it ends with its window.
    pub async fn give_back(&self, holder: &LimitHolder, unit: LimitUnit) -> Result<(), StoreError> {
        let key = unit.side.key(holder);
        let reply = self.store.call_before_deadline(&key, |latest| {
            let begun = self.store.call(&LIMITS_GIVE_BACK, key.clone());
            begun.arg(unit.window).arg(latest).arg(unit.call.as_str())
        });
        let (reply, _) = reply.await.inspect_err(|error| {
            if let StoreError::Unavailable { .. } = error {
                self.give_back_later(&key, vec![unit.call.clone()]);
            }
        })?;
        match reply.token() {
            "ok" | "gone" => Ok(()),
            _ => reply.unknown(),
        }
    }

    fn give_back_later(&self, key: &str, calls: Vec<CallId>) {
        if !calls.is_empty() {
            let settled_at = Instant::now() + self.store.inner.config.command_timeout;
            self.lost.add(key, calls, settled_at);
        }
    }
}

impl Store {
    /// The rate limits stored in this deployment.
    pub fn limits(&self) -> RateLimits {
        let (store, lost) = (self.clone(), Arc::default());
        RateLimits { store, lost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_unambiguous_and_hides_its_token() {
        let holder = LimitHolder::new("default", "shop", "a/b:c");
        assert_eq!(holder.parts(), ("default", "shop", "a/b:c"));
        assert_eq!(
            LimitHolder::from_name(holder.name.clone()),
            Some(holder.clone())
        );
        assert_eq!(format!("{holder:?}"), "LimitHolder(default:shop/…)");
        assert_eq!(LimitHolder::from_name("default".to_owned()), None);
    }

    #[test]
    fn a_limit_round_trips_through_its_text_and_invalid_texts_are_rejected() {
        let limit = RateLimit {
            read: -1,
            write: 7,
            interval_seconds: 60,
        };
        assert_eq!(RateLimit::from_text(&limit.to_text()).unwrap(), limit);
        assert_eq!(limit.units(LimitSide::Read), None);
        assert_eq!(limit.units(LimitSide::Write), Some(7));
        for text in ["", "1 2", "1 2 -3", "a b c"] {
            assert!(RateLimit::from_text(text).is_err(), "{text}");
        }
    }
}
