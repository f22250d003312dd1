//! The readiness of the pump of a pool.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_daemon::HealthCheck;
use tidegate_daemon::public_reason;
use tidegate_store::{ServerBuckets, StoreError};

/// The results of the last roster call and the last lease calls of each server. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct PumpReadiness(Arc<Mutex<BTreeMap<Arc<str>, LastResults>>>);

/// The last results of a server; `None` before the first call.
#[derive(Debug, Default)]
struct LastResults {
    roster: Option<Result<(), String>>,
    leases: Option<Result<(), String>>,
}

impl LastResults {
    fn outcome(&self) -> Result<(), String> {
        let looked = |look: &Option<Result<(), String>>, first: &str| {
            look.clone().unwrap_or_else(|| Err(first.to_owned()))
        };
        looked(&self.roster, "not on the roster yet")?;
        looked(&self.leases, "the leases were not checked yet")
    }
}

impl PumpReadiness {
    /// Sets the servers of the pool.
    pub(crate) fn follow(&self, servers: &[ServerBuckets]) {
        let mut looks = self.0.lock();
        looks.retain(|address, _| servers.iter().any(|it| it.address == *address));
        for server in servers {
            looks.entry(Arc::clone(&server.address)).or_default();
        }
    }

    /// Records the result of a roster call of a server.
    pub(crate) fn joined<T>(&self, server: &str, result: &Result<T, StoreError>) {
        if let Some(looks) = self.0.lock().get_mut(server) {
            let what = "renewing the membership on the roster";
            record(server, &mut looks.roster, result, what);
        }
    }

    /// Records the result of the lease calls of a server.
    pub(crate) fn leased<T>(&self, server: &str, result: &Result<T, StoreError>) {
        if let Some(looks) = self.0.lock().get_mut(server) {
            let what = "acquiring and releasing leases";
            record(server, &mut looks.leases, result, what);
        }
    }

    /// The readiness check of the pool.
    pub(crate) fn check(&self, pool: &str) -> HealthCheck {
        let membership = self.clone();
        HealthCheck::new(format!("pump of pool {pool}"), move || {
            std::future::ready(membership.outcome())
        })
    }

    fn outcome(&self) -> Result<(), String> {
        let looks = self.0.lock();
        if looks.is_empty() {
            return Err("no server is known yet".to_owned());
        }
        looks.iter().try_for_each(|(server, looks)| {
            let outcome = looks.outcome();
            outcome.map_err(|error| format!("{server}: {error}"))
        })
    }
}

/// Records a result. Logs the first failure, and the first success after it.
fn record<T>(
    server: &str,
    last: &mut Option<Result<(), String>>,
    result: &Result<T, StoreError>,
    what: &str,
) {
    let had_failed = matches!(last, Some(Err(_)));
    *last = Some(match result {
        Ok(_) => {
            if had_failed {
                tracing::info!(server, "{what} succeeds again");
            }
            Ok(())
        }
        Err(error) => {
            if !had_failed {
                tracing::warn!(
                    server,
                    %error,
                    "{what} fails: other pumps that reach this server take its buckets; check the connection to it"
                );
            }
            Err(format!("{what} fails: {}", public_reason(error)))
        }
    });
}
