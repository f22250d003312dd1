//! The routes of the admin port: `/v1` for operators, tokens and rate limits as lmstfy has them, the dashboard, the
//! relays for `tidegate-relayd`, the access log, metrics and information for operators. Without accounts no credentials
//! are required, so the port must be on a private address.

mod access_log;
mod cold;
mod error;
mod info;
mod limiter;
mod limits;
mod namespaces;
mod native;
mod profiles;
mod relays;
mod router;
mod tokens;
mod views;

pub(crate) use native::handler;
