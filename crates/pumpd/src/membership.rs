//! Whether this instance takes part in pumping a pool.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_launch::reason;
use tidegate_service::Check;
use tidegate_store::{ServerBuckets, StoreError};

/// Whether the last looks at the roster and the leases of each server went well; if not, why. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Membership(Arc<Mutex<BTreeMap<Arc<str>, Looks>>>);

/// The last looks at a server; none before the first.
#[derive(Debug, Default)]
struct Looks {
    roster: Option<Result<(), String>>,
    leases: Option<Result<(), String>>,
}

impl Looks {
    fn outcome(&self) -> Result<(), String> {
        let looked = |look: &Option<Result<(), String>>, first: &str| match look {
            Some(outcome) => outcome.clone(),
            None => Err(first.to_owned()),
        };
        looked(&self.roster, "not on the roster yet")?;
        looked(&self.leases, "the leases were not looked at yet")
    }
}

impl Membership {
    /// Before the first look.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// These are the servers from now on.
    pub(crate) fn follow(&self, servers: &[ServerBuckets]) {
        let mut looks = self.looks();
        looks.retain(|address, _| servers.iter().any(|it| it.address == *address));
        for server in servers {
            looks.entry(Arc::clone(&server.address)).or_default();
        }
    }

    /// Notes how a call of the roster of a server went.
    pub(crate) fn joined<T>(&self, server: &str, result: &Result<T, StoreError>) {
        if let Some(looks) = self.looks().get_mut(server) {
            note(server, &mut looks.roster, result, "stay on the roster");
        }
    }

    /// Notes how a look at the leases of a server went.
    pub(crate) fn leased<T>(&self, server: &str, result: &Result<T, StoreError>) {
        if let Some(looks) = self.looks().get_mut(server) {
            note(server, &mut looks.leases, result, "keep the leases");
        }
    }

    /// The same as a check of the readiness.
    pub(crate) fn check(&self, pool: &str) -> Check {
        let membership = self.clone();
        Check::new(format!("pump of pool {pool}"), move || {
            std::future::ready(membership.outcome())
        })
    }

    fn outcome(&self) -> Result<(), String> {
        let looks = self.looks();
        if looks.is_empty() {
            return Err("no server is known yet".to_owned());
        }
        let mut outcomes = looks.iter().map(|(server, looks)| {
            let outcome = looks.outcome();
            outcome.map_err(|error| format!("{server}: {error}"))
        });
        outcomes.try_for_each(|outcome| outcome)
    }

    fn looks(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Looks>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs a failure once, and when it is over.
fn note<T>(
    server: &str,
    last: &mut Option<Result<(), String>>,
    result: &Result<T, StoreError>,
    what: &str,
) {
    let had_failed = matches!(last, Some(Err(_)));
    *last = Some(match result {
        Ok(_) => {
            if had_failed {
                tracing::info!(server, "can {what} again");
            }
            Ok(())
        }
        Err(error) => {
            if !had_failed {
                tracing::warn!(
                    server,
                    %error,
                    "cannot {what}: pumps that reach this server lead its buckets, check the connection to it"
                );
            }
            Err(format!("cannot {what}: {}", reason(error)))
        }
    });
}
