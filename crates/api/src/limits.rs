//! How often a token may consume and publish.
//!
//! A request takes a unit before anything else is read of it, and holds it. A success keeps it; whatever
//! else ends the request, a hang-up included, drops the [`Permit`], which gives the unit back.

mod local;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidegate_store::{
    LimitCreated, LimitHolder, LimitSide, Limits, RateLimit, StoreError, Unit, UnitTaken,
};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::last_known::LastKnown;
use crate::metrics;
use crate::token_memory::TokenName;
use local::{Account, Counter, LocalUnit, LocalUnits};

/// How long a request waits for Redis to count it. Longer than for what is only read: a unit that this process counts is one
/// that the other processes do not know of.
const COUNT_PATIENCE: Duration = Duration::from_secs(2);

/// What Redis answers about the limit of a token.
type Known = Result<Option<Option<RateLimit>>, StoreError>;

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Taking jobs.
    Consume,
    /// Storing jobs: one, or many in one request.
    Produce,
}

impl Action {
    /// Its name on the wire and in metrics.
    pub(crate) const fn name(self) -> &'static str {
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

/// Why there is no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoPermit {
    /// The token has done as much as it may for now.
    OverLimit,
    /// Redis is unavailable, and has never said whether the token has a limit.
    Unknown,
    /// Storage failed. The reason has been logged.
    Failed,
}

/// The limits, and a memory of who has which, or none: for a second a new limit may not hold yet. While Redis is
/// unavailable the last answer counts, and units are counted in this process. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct LimitDesk(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: Limits,
    known: LastKnown<Option<RateLimit>>,
    /// What was taken while Redis could not count it.
    local: LocalUnits,
    /// Units on their way here and back.
    tasks: TaskTracker,
    /// Where tasks run that are started by a drop, which may happen anywhere.
    runtime: Handle,
}

impl LimitDesk {
    /// To be called on a runtime.
    pub(crate) fn new(limits: Limits) -> Self {
        Self(Arc::new(Inner {
            limits,
            known: LastKnown::new("limits"),
            local: LocalUnits::default(),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
        }))
    }

    /// Lets a request begin, if its token has not yet done as much as it may.
    pub(crate) async fn permit(
        &self,
        token: TokenName<'_>,
        action: Action,
    ) -> Result<Permit, NoPermit> {
        let Some(limit) = self.known(token).await? else {
            return Ok(Permit(None));
        };
        let side = action.side();
        let Some(units_max) = limit.units(side) else {
            return Ok(Permit(None));
        };
        let account = (token.holder(), side);
        let interval = limit.interval_seconds;
        match self.0.local.counter(&account) {
            Counter::Redis => {}
            Counter::Local => return self.take_locally(account, units_max, interval),
            Counter::LocalWithTrial => {
                // Nothing waits for it, and the unit is given back.
                self.begin_to_take(account.clone(), units_max, interval);
                return self.take_locally(account, units_max, interval);
            }
        }
        let taking = self.begin_to_take(account.clone(), units_max, interval);
        match timeout(COUNT_PATIENCE, taking).await {
            Ok(Ok(Ok(Some(permit)))) => Ok(permit),
            Ok(Ok(Ok(None))) => Err(NoPermit::OverLimit),
            // A unit that is taken later is given back.
            Err(_) => {
                self.0.local.failed(account.clone(), interval);
                self.take_locally(account, units_max, interval)
            }
            Ok(Ok(Err(StoreError::Unavailable { .. }))) => {
                self.take_locally(account, units_max, interval)
            }
            // The latter: only a runtime that shuts down ends the task early.
            Ok(Ok(Err(_)) | Err(_)) => Err(NoPermit::Failed),
        }
    }

    /// Asks Redis for a unit, in a task of its own: a client that hangs up while the call is in flight must not leave a
    /// unit behind that no request holds.
    fn begin_to_take(
        &self,
        account: Account,
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
            let taken = taking.await.inspect_err(metrics::storage_failed);
            let is_late = began_at.elapsed() >= COUNT_PATIENCE;
            if is_late || matches!(taken, Err(StoreError::Unavailable { .. })) {
                inner.local.failed(account.clone(), interval_seconds);
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
        account: Account,
        units_max: u64,
        interval_seconds: u32,
    ) -> Result<Permit, NoPermit> {
        let local = &self.0.local;
        let unit = local.take(account.clone(), units_max, interval_seconds);
        let unit = HeldUnit::Local(unit.ok_or(NoPermit::OverLimit)?);
        Ok(Permit::new(Arc::clone(&self.0), account, unit))
    }

    /// Has the limit of a token known before a request needs it, so that it holds while Redis is unavailable.
    pub(crate) fn learn(&self, token: TokenName<'_>) {
        self.0.known.learn(token, self.question());
    }

    /// Asks again about the limit of a token if that is known and it is time, so that a request waits less for it.
    pub(crate) fn refresh(&self, token: TokenName<'_>) {
        self.0.known.refresh(token, self.question());
    }

    /// What [`LastKnown`] asks Redis.
    fn question(&self) -> impl FnOnce(LimitHolder) -> BoxFuture<'static, Known> {
        |holder| {
            let limits = self.0.limits.clone();
            async move { Ok(Some(limits.get(&holder).await?)) }.boxed()
        }
    }

    async fn known(&self, token: TokenName<'_>) -> Result<Option<RateLimit>, NoPermit> {
        match self.0.known.get(token, self.question()).await {
            Ok(limit) => Ok(limit.flatten()),
            Err(StoreError::Unavailable { .. }) => Err(NoPermit::Unknown),
            Err(_) => Err(NoPermit::Failed),
        }
    }

    /// Gives a token a limit, unless it has one.
    pub(crate) async fn create(
        &self,
        holder: &LimitHolder,
        limit: RateLimit,
    ) -> Result<LimitCreated, StoreError> {
        let created = self.0.limits.create(holder, limit).await?;
        self.0.known.forget(TokenName::of_holder(holder));
        Ok(created)
    }

    /// Gives a token a limit: it holds here at once, in other processes within a second.
    pub(crate) async fn set(
        &self,
        holder: &LimitHolder,
        limit: RateLimit,
    ) -> Result<(), StoreError> {
        self.0.limits.set(holder, limit).await?;
        self.0.known.forget(TokenName::of_holder(holder));
        Ok(())
    }

    /// Removes the limit of a token: here at once, in other processes within a second.
    pub(crate) async fn delete(&self, holder: &LimitHolder) -> Result<(), StoreError> {
        self.0.limits.delete(holder).await?;
        self.0.known.forget(TokenName::of_holder(holder));
        Ok(())
    }

    /// The limit of a token as it is stored.
    pub(crate) async fn get(&self, holder: &LimitHolder) -> Result<Option<RateLimit>, StoreError> {
        self.0.limits.get(holder).await
    }

    /// All limits.
    pub(crate) async fn list(&self) -> Result<Vec<(LimitHolder, RateLimit)>, StoreError> {
        self.0.limits.list().await
    }

    /// Waits until units that are on their way back have arrived. To be called when all requests have
    /// ended.
    pub(crate) async fn settled(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

/// The right to one request. Small where nothing is limited: a long poll keeps it for minutes.
#[derive(Debug)]
pub(crate) struct Permit(Option<Box<Held>>);

#[derive(Debug)]
struct Held {
    inner: Arc<Inner>,
    account: Account,
    unit: HeldUnit,
}

/// A unit, by what counts it.
#[derive(Debug)]
enum HeldUnit {
    Redis(Unit),
    Local(LocalUnit),
}

impl Permit {
    fn new(inner: Arc<Inner>, account: Account, unit: HeldUnit) -> Self {
        Self(Some(Box::new(Held {
            inner,
            account,
            unit,
        })))
    }

    /// The request succeeded: it counts.
    pub(crate) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(held) = self.0.take() else {
            return;
        };
        let Held {
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
            // Should this fail, the unit comes back with a later call, or the next window.
            if let Err(error) = inner.limits.give_back(&account.0, unit).await {
                metrics::storage_failed(&error);
            }
        };
        tasks.spawn_on(giving_back, &runtime);
    }
}
