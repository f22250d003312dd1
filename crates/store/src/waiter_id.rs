//! The id of a process that waits for jobs.

/// The length of an id, as `lua/waiting.lua` cuts it.
const BYTES: usize = 8;

/// The longest time for which a registration is stored, in ms: two periods of `lua/waiting.lua`.
pub(crate) const REGISTERED_MS_MAX: u64 = 2 * 3_600_000;

/// Identifies a process that waits for jobs, until it ends. Random, of 47 bits; two processes with the same one would be rung
/// together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaiterId(String);

impl WaiterId {
    pub(crate) fn random() -> Self {
        use rand::distr::{Alphanumeric, SampleString};
        Self(Alphanumeric.sample_string(&mut rand::rng(), BYTES))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}
