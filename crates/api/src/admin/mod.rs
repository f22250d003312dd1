//! The routes of the admin port: tokens, API keys, rate limits, lanes, policies, relays, the access log, metrics and information
//! for operators.
//! Without accounts no credentials are required, so the port must be on a private address.

mod access_log;
mod error;
mod info;
mod keys;
mod lanes;
mod limiter;
mod limits;
mod policies;
mod profiles;
mod queue_path;
mod relays;
mod router;
mod tokens;
mod views;

pub(crate) use router::router;
