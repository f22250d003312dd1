//! The admin port of the lmstfy wire: tokens, their limits, lanes, and what operators look at. Without
//! accounts it asks for no credentials, so it belongs on a private address.

mod access_log;
mod accounts;
mod info;
mod lanes;
mod limits;
mod profiles;
mod router;
mod tokens;
mod views;

pub(crate) use accounts::Accounts;
pub(crate) use router::router;
