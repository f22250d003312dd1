//! Jobs as they are published and answered on the lmstfy wire.

use serde::{Deserialize, Serialize};

use super::time::UnixMicros;

/// The parameters of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobParameters {
    /// Its number, unique in the run; its body begins with it.
    pub number: u64,
    /// Its delay, in µs.
    pub delay: u64,
    /// Its time to live, in µs; 0 = no expiry.
    pub ttl: u64,
    /// How often it may be delivered.
    pub tries: u64,
    /// The length of its body, in bytes.
    pub bytes: usize,
    /// Whether its body is not text.
    #[serde(default)]
    pub is_binary: bool,
    /// The number of its attributes. Their names and values are derived from its number.
    #[serde(default)]
    pub attributes: u8,
}

/// A job in an answer to a consume or a peek.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobInAnswer {
    /// Its number, if body and attributes are exactly those that were published under that number.
    pub number: Option<u64>,
    /// Its id.
    pub id: String,
    /// The number of the queue in the answer.
    pub queue: u16,
    /// Tries left after this delivery. 0 for a peek by id.
    pub tries_left: u64,
    /// When it was created, by Redis's clock, truncated to ms.
    pub created: UnixMicros,
    /// From then to the begin of its lease, or to the peek, by the same clock, in µs with a resolution of 1 ms.
    pub elapsed: u64,
}

impl JobInAnswer {
    /// Returns when its lease began, or when it was peeked at, truncated to ms.
    #[must_use]
    pub const fn reserved(&self) -> UnixMicros {
        self.created + self.elapsed
    }
}
