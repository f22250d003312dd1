//! The id of a process that waits for jobs.

/// The length of an id, as `lua/waiting.lua` cuts it.
pub(crate) const ID_BYTES: usize = 8;

/// The length of a period of registrations in `lua/waiting.lua`, in ms.
pub(crate) const PERIOD_MS: u64 = 3_600_000;

/// The longest time for which a registration is stored, in ms.
pub(crate) const REGISTERED_MS_MAX: u64 = 2 * PERIOD_MS;

/// Identifies a process that waits for jobs, until it ends. Random, of 47 bits; two processes with the same one would
/// be rung together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaiterId(String);

impl WaiterId {
    pub(crate) fn random() -> Self {
        use rand::distr::{Alphanumeric, SampleString};
        Self(Alphanumeric.sample_string(&mut rand::rng(), ID_BYTES))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}
