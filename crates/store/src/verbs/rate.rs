//! Units of rates: each is for one delivery of a queue, or of the queues that share a limit; or for one publish to a
//! namespace.

use std::time::Duration;

use tidegate_core::limits::RATE_PER_MS_MAX;
use tidegate_core::{Namespace, QueueKey, Rate};

use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;
use crate::table::NamespacedName;

static RATE_TAKE: LazyScript = script!("rate_take");
static RATE_GIVE_BACK: LazyScript = script!("rate_give_back");

/// The longest time to live of the units of a rate, in ms (`rate_take.lua`).
pub(crate) const UNITS_MS_MAX: u64 = RATE_PER_MS_MAX + 61_000;

/// What a rate belongs to, which counts its units.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RateOwner {
    /// A queue. All its lanes take units in the bucket of the first one, so that the rate is exact.
    Queue(QueueKey),
    /// A limit that queues share.
    Limit(NamespacedName),
    /// The limit of publishes of a namespace.
    Publishes(Namespace),
}

/// The outcome of [`Store::take_units`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenUnits {
    /// How many were taken.
    pub units: u64,
    /// The time on the clock of Redis, in ms since 1970.
    pub now_ms: u64,
    /// When there is a further one, on the same clock; not later than `now_ms` if there is one now.
    pub next_ms: u64,
    /// When to ask for one, on the same clock. It is earlier than `next_ms` if units that were just taken may be given
    /// back.
    again_ms: u64,
    /// With which the units are given back.
    taken: String,
}

impl TakenUnits {
    /// Whether there is no further unit now.
    pub const fn is_used_up(&self) -> bool {
        self.next_ms > self.now_ms
    }

    /// How long it takes until there may be a further unit.
    pub const fn wait(&self) -> Duration {
        Duration::from_millis(self.again_ms.saturating_sub(self.now_ms))
    }
}

impl Store {
    /// Takes up to `wanted` units of a rate. Units that are not used are to be given back. With 0 nothing changes.
    ///
    /// # Errors
    /// Redis is unavailable. If units were taken nevertheless, they are lost: they come back by themselves.
    pub async fn take_units(
        &self,
        owner: &RateOwner,
        rate: Rate,
        wanted: u64,
    ) -> Result<TakenUnits, StoreError> {
        let key = self.units_key(owner);
        let reply = self.call_before_deadline(&key, |latest| {
            let call = self.call(&RATE_TAKE, key.clone());
            call.arg(rate.jobs).arg(rate.per_ms).arg(wanted).arg(latest)
        });
        let (mut reply, now_ms) = reply.await?;
        reply = reply.ok()?;
        Ok(TakenUnits {
            units: reply.count()?,
            now_ms,
            next_ms: reply.count()?,
            again_ms: reply.count()?,
            taken: String::from_utf8_lossy(&reply.bytes()?).into_owned(),
        })
    }

    /// Gives back `units` of the units that a call has taken: other calls can take them, except those that have come
    /// back by themselves meanwhile.
    ///
    /// # Errors
    /// Redis is unavailable. The units come back by themselves.
    pub async fn give_units_back(
        &self,
        owner: &RateOwner,
        rate: Rate,
        taken: &TakenUnits,
        units: u64,
    ) -> Result<(), StoreError> {
        let key = self.units_key(owner);
        let reply = self.call_before_deadline(&key, |latest| {
            let call = self.call(&RATE_GIVE_BACK, key.clone());
            let call = call.arg(rate.jobs).arg(rate.per_ms).arg(units);
            call.arg(&taken.taken).arg(latest)
        });
        let (reply, _) = reply.await?;
        match reply.token() {
            "ok" | "gone" => Ok(()),
            _ => reply.unknown(),
        }
    }

    fn units_key(&self, owner: &RateOwner) -> String {
        match owner {
            RateOwner::Queue(queue) => {
                let keys = self.keys(self.bucket_of(queue));
                keys.rate(&queue.to_string())
            }
            RateOwner::Limit(limit) => {
                let name = limit.to_string();
                self.keys(self.bucket_of_name(&name)).limit(&name)
            }
            RateOwner::Publishes(namespace) => {
                let name = namespace.as_str();
                self.keys(self.bucket_of_name(name)).publishes(name)
            }
        }
    }
}
