//! Whether this instance takes part in pumping a pool.

use std::sync::{Arc, Mutex, PoisonError};

use tidegate_launch::reason;
use tidegate_service::Check;
use tidegate_store::StoreError;

/// Whether the last look at roster and leases went well; if not, why. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Membership(Arc<Mutex<Result<(), String>>>);

impl Membership {
    /// Before the first look.
    pub(crate) fn new() -> Self {
        let not_yet = Err("not on the roster yet".to_owned());
        Self(Arc::new(Mutex::new(not_yet)))
    }

    /// Notes how a look went.
    pub(crate) fn looked<T>(&self, result: &Result<T, StoreError>) {
        let kept = match result {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("cannot keep the leases: {}", reason(error))),
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = kept;
    }

    /// The same as a check of the readiness.
    pub(crate) fn check(&self, pool: &str) -> Check {
        let membership = self.clone();
        Check::new(format!("pump of pool {pool}"), move || {
            let last = membership.0.lock().unwrap_or_else(PoisonError::into_inner);
            std::future::ready(last.clone())
        })
    }
}
