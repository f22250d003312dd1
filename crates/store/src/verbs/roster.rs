use std::collections::BTreeMap;

use tidegate_core::keys;

use crate::script::{LazyScript, script};
use crate::{Store, StoreError};

static ROSTER: LazyScript = script!("roster");

/// Who pumps a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roster {
    /// Whether the caller was not on it before: it is new, or its membership had ended.
    pub is_new: bool,
    /// The live instances.
    pub instances: Vec<String>,
    /// Time until the next membership ends unless it is prolonged, in ms.
    pub next_end_in_ms: u64,
    /// Live instances that cannot reach some servers, and the addresses of those.
    pub cut_off: BTreeMap<String, Vec<String>>,
}

impl Store {
    /// Keeps `instance` on the list of live pumps for `ttl_ms` from now on, with the addresses of servers that it cannot
    /// reach, and answers the list. Everybody on it is told when somebody joins or leaves, or can reach other servers.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn roster_join(
        &self,
        instance: &str,
        ttl_ms: u64,
        cut_off: &[&str],
    ) -> Result<Roster, StoreError> {
        self.roster(instance, ttl_ms.max(1), cut_off).await
    }

    /// Takes `instance` off the list of live pumps.
    ///
    /// # Errors
    /// Redis is unavailable; the membership then ends by itself.
    pub async fn roster_leave(&self, instance: &str) -> Result<(), StoreError> {
        self.roster(instance, 0, &[]).await.map(drop)
    }

    async fn roster(
        &self,
        instance: &str,
        ttl_ms: u64,
        cut_off: &[&str],
    ) -> Result<Roster, StoreError> {
        let call = self
            .call(&ROSTER, keys::ROSTER.to_owned())
            .of_pump()
            .arg(instance)
            .arg(ttl_ms)
            .arg(keys::ROSTER_CHANNEL)
            .arg(cut_off.join("\n"));
        let mut reply = call.send().await?.ok()?;
        let is_new = reply.flag()?;
        let next_end_in_ms = reply.count()?;
        let instances = reply.texts()?;
        let pairs = reply.texts()?;
        let cut_off = pairs.chunks_exact(2).map(|pair| {
            let servers = pair[1].lines().map(str::to_owned).collect();
            (pair[0].clone(), servers)
        });
        Ok(Roster {
            is_new,
            instances,
            next_end_in_ms,
            cut_off: cut_off.collect(),
        })
    }
}
