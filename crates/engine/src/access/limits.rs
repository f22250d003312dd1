//! Rate limits of tokens, for consumes and for publishes.
//!
//! A request takes a unit before its parameters and body are read, and holds it as a [`Permit`]. A success uses the
//! unit up. Any other end of the request, including a hang-up, drops the permit, which gives the unit back.

mod local;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_store::{
    LimitCreated, LimitHolder, LimitSide, LimitUnit, RateLimit, RateLimits, StoreError, UnitTaken,
};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::access::tokens::last_known::{LastKnown, LookUp};
use crate::access::tokens::token_key::TokenKey;
use crate::error::EngineError;
use crate::metrics::storage_failure::record_store_error;
use local::{LimitAccount, LocalUnit, LocalUnits, UnitCounter};

/// How long a request waits for Redis to count its unit. This is longer than for reads, because units that this process
/// counts instead are not known to the other processes.
const COUNT_PATIENCE: Duration = Duration::from_secs(2);

/// The kinds of requests that are limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitedAction {
    /// Consuming, one job or several.
    Consume,
    /// Publishing, one job or a bulk.
    Produce,
}

impl LimitedAction {
    /// The name on the wire and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Consume => "consume",
            Self::Produce => "produce",
        }
    }

    const fn side(self) -> LimitSide {
        match self {
            Self::Consume => LimitSide::Read,
            Self::Produce => LimitSide::Write,
        }
    }
}

/// The rate limits of tokens. Limits are cached, so that another process may apply a new limit up to a second late.
/// While Redis is unavailable the last answer is used, and units are counted in this process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RateLimiter(Arc<RateLimiterInner>);

#[derive(Debug)]
struct RateLimiterInner {
    limits: RateLimits,
    known: LastKnown<RateLimits>,
    /// The units taken while Redis could not count them.
    local: LocalUnits,
    /// The tasks that take units and give them back.
    tasks: TaskTracker,
    /// For tasks that are started in `drop`, which may run outside of the runtime.
    runtime: Handle,
}

impl RateLimiter {
    /// Must be called inside a runtime.
    pub fn new(limits: RateLimits) -> Self {
        Self(Arc::new(RateLimiterInner {
            known: LastKnown::new(limits.clone()),
            limits,
            local: LocalUnits::default(),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
        }))
    }

    /// Takes a unit of the limit of a token. Without a limit the permit holds no unit.
    ///
    /// # Errors
    /// The limit of the token is reached; or Redis is unavailable, and no answer of the last hour says whether the
    /// token has a limit; or another failure.
    pub async fn permit(
        &self,
        token: TokenKey<'_>,
        action: LimitedAction,
    ) -> Result<Permit, EngineError> {
        let Some(limit) = self.cached_limit(token).await? else {
            return Ok(Permit::UNLIMITED);
        };
        let side = action.side();
        let Some(units_max) = limit.units(side) else {
            return Ok(Permit::UNLIMITED);
        };
        let account = (token.holder(), side);
        let interval = limit.interval_seconds;
        match self.0.local.counted_by(&account, Instant::now()) {
            UnitCounter::Redis => {}
            UnitCounter::Local => return self.take_locally(account, units_max, interval),
            UnitCounter::LocalWithTrial => {
                // The request does not wait for Redis; the unit that Redis counts is given back.
                self.spawn_take(account.clone(), units_max, interval);
                return self.take_locally(account, units_max, interval);
            }
        }
        let taking = self.spawn_take(account.clone(), units_max, interval);
        match timeout(COUNT_PATIENCE, taking).await {
            Ok(Ok(Ok(Some(permit)))) => Ok(permit),
            Ok(Ok(Ok(None))) => Err(EngineError::RateLimited),
            // A unit that Redis counts after the timeout is given back.
            Err(_) => {
                let local = &self.0.local;
                local.failed(account.clone(), interval, Instant::now());
                self.take_locally(account, units_max, interval)
            }
            Ok(Ok(Err(StoreError::Unavailable { .. }))) => {
                self.take_locally(account, units_max, interval)
            }
            // The task fails only if the runtime shuts down.
            Ok(Ok(Err(_)) | Err(_)) => Err(EngineError::StorageFailed),
        }
    }

    /// Takes a unit from Redis, in a separate task: if the client hangs up while the call is in flight, the unit must
    /// still be given back.
    fn spawn_take(
        &self,
        account: LimitAccount,
        units_max: u64,
        interval_seconds: u32,
    ) -> JoinHandle<Result<Option<Permit>, StoreError>> {
        let inner = Arc::clone(&self.0);
        self.0.tasks.spawn(async move {
            let (holder, side) = &account;
            let began_at = Instant::now();
            let taking = inner
                .limits
                .take(holder, *side, units_max, interval_seconds);
            let taken = taking.await.inspect_err(record_store_error);
            let is_late = began_at.elapsed() >= COUNT_PATIENCE;
            if is_late || matches!(taken, Err(StoreError::Unavailable { .. })) {
                let local = &inner.local;
                local.failed(account.clone(), interval_seconds, Instant::now());
            } else {
                inner.local.counted_by_redis(&account);
            }
            Ok(match taken? {
                UnitTaken::OverLimit => None,
                UnitTaken::Done(unit) => Some(Permit::new(inner, account, HeldUnit::Redis(unit))),
            })
        })
    }

    fn take_locally(
        &self,
        account: LimitAccount,
        units_max: u64,
        interval_seconds: u32,
    ) -> Result<Permit, EngineError> {
        let local = &self.0.local;
        let now = Instant::now();
        let unit = local.take(account.clone(), units_max, interval_seconds, now);
        let unit = HeldUnit::Local(unit.ok_or(EngineError::RateLimited)?);
        Ok(Permit::new(Arc::clone(&self.0), account, unit))
    }

    /// Looks up the limit of a token before a request needs it, so that it is known while Redis is unavailable. Returns
    /// at once.
    pub fn prefetch(&self, token: TokenKey<'_>) {
        self.0.known.learn(token);
    }

    /// Refreshes the limit of a token if the cached answer is due, so that a request waits less for it. Returns at
    /// once.
    pub fn refresh(&self, token: TokenKey<'_>) {
        self.0.known.refresh(token);
    }

    async fn cached_limit(&self, token: TokenKey<'_>) -> Result<Option<RateLimit>, EngineError> {
        match self.0.known.get(token).await {
            Ok(limit) => Ok(limit.flatten()),
            Err(error) => Err(EngineError::of_failed_check(&error)),
        }
    }

    /// Creates the limit of a token, unless it has one.
    pub async fn create(
        &self,
        holder: &LimitHolder,
        limit: RateLimit,
    ) -> Result<LimitCreated, EngineError> {
        let created = self.0.limits.create(holder, limit).await?;
        self.0.known.forget(TokenKey::of_holder(holder));
        Ok(created)
    }

    /// Sets the limit of a token: here at once, in other processes within a second.
    pub async fn set(&self, holder: &LimitHolder, limit: RateLimit) -> Result<(), EngineError> {
        self.0.limits.set(holder, limit).await?;
        self.0.known.forget(TokenKey::of_holder(holder));
        Ok(())
    }

    /// Removes the limit of a token: here at once, in other processes within a second.
    pub async fn delete(&self, holder: &LimitHolder) -> Result<(), EngineError> {
        self.0.limits.delete(holder).await?;
        self.0.known.forget(TokenKey::of_holder(holder));
        Ok(())
    }

    /// Reads the limit of a token from Redis.
    pub async fn get(&self, holder: &LimitHolder) -> Result<Option<RateLimit>, EngineError> {
        Ok(self.0.limits.get(holder).await?)
    }

    /// Reads all limits from Redis.
    pub async fn list(&self) -> Result<Vec<(LimitHolder, RateLimit)>, EngineError> {
        Ok(self.0.limits.list().await?)
    }

    /// Waits until all unused units have been given back. Must be called when all requests have ended.
    pub async fn wait_idle(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

/// That a token has no limit is cached as well: the inner `None`.
impl LookUp for RateLimits {
    const SUBJECT: &'static str = "limits";

    type Name = LimitHolder;

    type Answer = Option<RateLimit>;

    async fn look_up(&self, token: &LimitHolder) -> Result<Option<Self::Answer>, StoreError> {
        Ok(Some(self.get(token).await?))
    }
}

/// The permission for one request. Dropping it gives the unit back. It is small without a limit, since a long poll
/// keeps it for minutes.
#[derive(Debug)]
pub struct Permit(Option<Box<HeldPermit>>);

#[derive(Debug)]
struct HeldPermit {
    inner: Arc<RateLimiterInner>,
    account: LimitAccount,
    unit: HeldUnit,
}

/// A unit, by its counter.
#[derive(Debug)]
enum HeldUnit {
    Redis(LimitUnit),
    Local(LocalUnit),
}

impl Permit {
    /// The permission of a client without a limit.
    pub(crate) const UNLIMITED: Self = Self(None);

    fn new(inner: Arc<RateLimiterInner>, account: LimitAccount, unit: HeldUnit) -> Self {
        Self(Some(Box::new(HeldPermit {
            inner,
            account,
            unit,
        })))
    }

    /// Uses the unit up: the request has succeeded.
    pub fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(held) = self.0.take() else {
            return;
        };
        let HeldPermit {
            inner,
            account,
            unit,
        } = *held;
        let unit = match unit {
            HeldUnit::Local(unit) => return inner.local.give_back(&account, unit),
            HeldUnit::Redis(unit) => unit,
        };
        let tasks = inner.tasks.clone();
        let runtime = inner.runtime.clone();
        let giving_back = async move {
            // If this fails, a later call gives the unit back, or the next window begins with all units.
            if let Err(error) = inner.limits.give_back(&account.0, unit).await {
                record_store_error(&error);
            }
        };
        tasks.spawn_on(giving_back, &runtime);
    }
}
