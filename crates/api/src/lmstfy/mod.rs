//! The lmstfy wire: what the published clients of lmstfy speak, answer for answer.
//!
//! A handler parses, calls one verb of the store, renders. [`routes`] shows all of them, [`error`] all
//! that can go wrong, [`scope`] the order in which names, pool and token are checked.

mod ack;
mod attributes;
pub(crate) mod error;
#[doc(hidden)]
pub mod fuzz;
mod job_id;
pub(crate) mod json;
mod large;
mod peek;
mod publish;
mod publish_bulk;
mod purge;
pub(crate) mod query;
mod republish;
pub(crate) mod request;
mod reserve;
mod respawn;
pub(crate) mod routes;
mod scope;
mod shown_job;
mod stats;
mod stored_as;
mod terms;
mod time_limit;
pub(crate) mod unmatched;
