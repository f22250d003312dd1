//! Limits of a listener.

use std::time::Duration;

use serde::Deserialize;

/// Limits on connections and on the time and bytes of each.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenLimits {
    /// Connections served at a time. Of further ones, a fiftieth as many (at least 16) at a time are
    /// answered 503, within a second each; the rest wait in the accept queue of the system.
    pub connections_max: usize,
    /// Time from the first byte of a request header to its last.
    #[serde(with = "tidegate_core::duration")]
    pub header_timeout: Duration,
    /// Time from the opening of a connection, or the end of a request, to the next byte.
    #[serde(with = "tidegate_core::duration")]
    pub idle_timeout: Duration,
    /// Time in which a client must read each MiB of its answer.
    #[serde(with = "tidegate_core::duration")]
    pub write_timeout: Duration,
    /// Largest header, including the request line, in bytes.
    pub header_bytes_max: usize,
}

impl Default for ListenLimits {
    /// The limits of an admin port, which has few clients.
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
