//! Rate limits: how often a token may consume and publish, and how often it did.
//!
//! A limit is a row of one table. What was taken is counted in a window that begins with the first unit
//! and has a name, so that a unit is given back to the window it came from or to none.

mod lost_replies;

use std::sync::Arc;
use std::time::Instant;

use tidegate_core::keys;

use crate::reply::Reply;
use crate::script::{Call, LazyScript, script};
use crate::{Store, StoreError};
use lost_replies::{CallId, LostReplies};

static LIMITS_TAKE: LazyScript = script!("limits_take");
static LIMITS_GIVE_BACK: LazyScript = script!("limits_give_back");

/// The rate limits kept in one deployment. Cheap to clone; clones share what they know of units to be given back.
#[derive(Debug, Clone)]
pub struct Limits {
    store: Store,
    lost: Arc<LostReplies>,
}

/// A token of a namespace in a pool. What has a limit is this, and never the token alone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct LimitHolder {
    /// Pool, namespace and token in one unambiguous text.
    name: String,
}

/// How many requests may succeed within a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Consumes; 0 or less = as many as there are.
    pub read: i64,
    /// Publishes; 0 or less = as many as there are.
    pub write: i64,
    /// The length of a window in seconds.
    pub interval_seconds: u32,
}

/// What a unit is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LimitSide {
    /// To consume.
    Read,
    /// To publish.
    Write,
}

/// The right to one request, taken from a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    side: LimitSide,
    window: u64,
    call: CallId,
}

/// What became of the wish for a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum UnitTaken {
    /// It was there.
    Done(Unit),
    /// All units of the running window are taken.
    OverLimit,
}

/// What became of a new limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum LimitCreated {
    /// It holds from now on.
    Done,
    /// The token has one already; nothing changed.
    AlreadyExists,
}

impl LimitHolder {
    /// The holder of these names. A pool must have no colon in its name, and a namespace no slash.
    #[must_use]
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
    #[must_use]
    pub fn parts(&self) -> (&str, &str, &str) {
        let (pool, rest) = self.name.split_once(':').unwrap_or_default();
        let (namespace, token) = rest.split_once('/').unwrap_or_default();
        (pool, namespace, token)
    }
}

/// Shows where the token belongs, not the token: that is a secret.
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
    /// How many units a window has on this side; `None` = the side is not limited.
    #[must_use]
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
            _ => Err(StoreError::corrupt(format!("rate limit {text:?}"))),
        }
    }
}

impl Limits {
    pub(crate) fn new(store: Store) -> Self {
        let lost = Arc::default();
        Self { store, lost }
    }

    fn command(name: &str) -> redis::Cmd {
        let mut command = redis::cmd(name);
        command.arg(keys::LIMITS);
        command
    }

    /// Gives a token a limit, unless it has one.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn create(
        &self,
        holder: &LimitHolder,
        limit: RateLimit,
    ) -> Result<LimitCreated, StoreError> {
        let mut add = Self::command("HSETNX");
        let add = add.arg(&holder.name).arg(limit.to_text());
        Ok(if self.store.command(add).await? {
            LimitCreated::Done
        } else {
            LimitCreated::AlreadyExists
        })
    }

    /// Gives a token a limit, in the place of the one it may have. The running window goes on.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn set(&self, holder: &LimitHolder, limit: RateLimit) -> Result<(), StoreError> {
        let mut set = Self::command("HSET");
        let set = set.arg(&holder.name).arg(limit.to_text());
        self.store.command(set).await
    }

    /// The limit of a token, if it has one.
    ///
    /// # Errors
    /// Redis is unavailable, or holds what is no limit.
    pub async fn get(&self, holder: &LimitHolder) -> Result<Option<RateLimit>, StoreError> {
        let mut ask = Self::command("HGET");
        let text: Option<String> = self.store.command(ask.arg(&holder.name)).await?;
        text.as_deref().map(RateLimit::from_text).transpose()
    }

    /// Removes the limit of a token, whether it has one or not.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn delete(&self, holder: &LimitHolder) -> Result<(), StoreError> {
        let mut remove = Self::command("HDEL");
        self.store.command(remove.arg(&holder.name)).await
    }

    /// All limits, in the order of pools, namespaces and tokens.
    ///
    /// # Errors
    /// Redis is unavailable, or holds what is no limit.
    pub async fn list(&self) -> Result<Vec<(LimitHolder, RateLimit)>, StoreError> {
        let all = Self::command("HGETALL");
        let mut rows: Vec<(String, String)> = self.store.command(&all).await?;
        rows.sort();
        let parsed = rows.into_iter().map(|(name, text)| {
            let holder = LimitHolder::from_name(name)
                .ok_or_else(|| StoreError::corrupt("a rate limit that is nobody's"))?;
            Ok((holder, RateLimit::from_text(&text)?))
        });
        parsed.collect()
    }

    /// Takes one of `units_max` units of the running window, or of a new one. Units that were taken by earlier calls whose
    /// replies were lost are given back before.
    ///
    /// # Errors
    /// Redis is unavailable. If the call took a unit all the same, a later call gives it back, unless many were made since.
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
        let reply = self.in_time(&key, |latest| {
            let begun = self.store.call(&LIMITS_TAKE, key.clone());
            let begun = begun.arg(units_max).arg(interval_ms).arg(latest);
            begun.arg(&ids)
        });
        let mut reply = match reply.await {
            Ok(reply) => reply,
            Err(error) => {
                if error.is_away() {
                    lost.push(call);
                }
                self.give_back_later(&key, lost);
                return Err(error);
            }
        };
        match reply.token() {
            "ok" => Ok(UnitTaken::Done(Unit {
                side,
                window: reply.count()?,
                call,
            })),
            "over" => Ok(UnitTaken::OverLimit),
            _ => reply.unknown(),
        }
    }

    /// Gives a unit back, if its window is still the running one.
    ///
    /// # Errors
    /// Redis is unavailable; the unit comes back with a later call, or the next window.
    pub async fn give_back(&self, holder: &LimitHolder, unit: Unit) -> Result<(), StoreError> {
        let key = unit.side.key(holder);
        let reply = self.in_time(&key, |latest| {
            let begun = self.store.call(&LIMITS_GIVE_BACK, key.clone());
            begun.arg(unit.window).arg(latest).arg(unit.call.as_str())
        });
        let reply = reply.await.inspect_err(|error| {
            if let StoreError::Unavailable { .. } = error {
                self.give_back_later(&key, vec![unit.call.clone()]);
            }
        })?;
        match reply.token() {
            "ok" | "gone" => Ok(()),
            _ => reply.unknown(),
        }
    }

    /// Sends a call that does nothing if it is executed when its reply is no longer waited for; it is passed that moment.
    /// Where the clock of Redis was set forward it is sent again.
    async fn in_time<'a>(
        &self,
        key: &str,
        call: impl Fn(String) -> Call<'a>,
    ) -> Result<Reply, StoreError> {
        loop {
            let (mut reply, written) = call(self.store.latest(key)).write().await?;
            written.note_clock(reply.count()?);
            if reply.token() != "late" {
                return Ok(reply);
            }
        }
    }

    fn give_back_later(&self, key: &str, calls: Vec<CallId>) {
        if !calls.is_empty() {
            let settled_at = Instant::now() + self.store.inner.config.command_timeout;
            self.lost.add(key, calls, settled_at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_told_from_all_others_and_hides_its_token() {
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
    fn a_limit_survives_its_text_and_nonsense_is_no_limit() {
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
