//! The limits of a listener.

use std::time::Duration;

use serde::Deserialize;

/// What a listener puts up with.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenLimits {
    /// Connections at a time. Of further ones a fiftieth as many at a time are answered 503, within a
    /// second each; the rest waits in the system's queue.
    pub connections_max: usize,
    /// From the first byte of a request's header to its last.
    #[serde(with = "humantime_serde")]
    pub header_timeout: Duration,
    /// From the opening of a connection, or the end of a request, to the next byte.
    #[serde(with = "humantime_serde")]
    pub idle_timeout: Duration,
    /// For a client to take each MiB of its answer.
    #[serde(with = "humantime_serde")]
    pub write_timeout: Duration,
    /// The longest header, request line included, in bytes.
    pub header_bytes_max: usize,
}

impl Default for ListenLimits {
    /// For an admin port, which a few well-known callers use.
    fn default() -> Self {
        Self {
            connections_max: 256,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            header_bytes_max: 32 * 1024,
        }
    }
}
