//! The Redis deployment of a run.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Lease of the pumps, in ms: the daemon's default.
pub const LEASE_MS: u64 = 3000;

/// The Redis deployment of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Deployment {
    /// One Redis with appendfsync always: no acknowledged job may be lost
    Always,
    /// One Redis with appendfsync everysec: jobs acknowledged shortly before a crash may be lost
    EverySecond,
    /// A master with two replicas and three sentinels: jobs that no replica has yet may be lost in a failover
    Sentinels,
    /// A cluster of three primaries with one replica each, appendfsync always: jobs that no replica has yet may be lost
    /// if a primary fails
    Cluster,
}

impl Deployment {
    /// Returns its name, and the replicas that a publish waits for.
    #[must_use]
    pub fn name_with(self, is_replicated: bool) -> String {
        match is_replicated {
            true => format!("{}+replica:{}", self.name(), self.replicas()),
            false => self.name(),
        }
    }

    /// Returns the number of replicas per server.
    #[must_use]
    pub const fn replicas(self) -> usize {
        match self {
            Self::Always | Self::EverySecond => 0,
            Self::Sentinels => 2,
            Self::Cluster => 1,
        }
    }

    /// Returns its name on the command line.
    #[must_use]
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}
