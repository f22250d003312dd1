//! A daemon that passes jobs on: from a queue to a webhook, a broker or another queue.
//!
//! ```text
//!  source ──reserve──► relay ──deliver──► sink
//!    ▲                   │  ▲               │
//!    └─ ack, fail, ──────┘  └── outcomes ───┘
//!       release
//! ```
//!
//! * `relay` is the loop: it reserves jobs, starts deliveries, and reports their outcomes to the source in batches.
//! * `sources` and `sinks` have one file for each kind. A sink says what became of each job; it decides nothing.
//! * `circuit_breaker` stops the loop while the sink is unavailable.
//! * `relay_set` starts, replaces and stops relays; `stored_relays` are the relays that are set through the API.
//! * `http` has the client of webhooks and of the lmstfy wire, and the guard of addresses.
//!
//! The daemon stores nothing. Each job is delivered at least once: it is acknowledged only after the sink has confirmed
//! it, and its id travels, so that the sink can drop repetitions.

mod assembly;
mod circuit_breaker;
mod config;
mod daemon;
mod http;
mod job;
mod relay;
mod relay_metrics;
mod relay_set;
mod sinks;
mod sources;
mod status;
mod stored_relays;

pub use config::{DEFAULTS, RelaydConfig};
pub use daemon::{RelaydStartError, run};
