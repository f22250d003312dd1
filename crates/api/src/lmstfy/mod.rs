//! The HTTP API of lmstfy, compatible with its published clients.
//!
//! A handler parses the request, calls the pool, and renders the answer. [`routes`] lists all handlers, [`error`] all
//! error answers, and [`scope`] has the order in which names, pool and token are checked.

mod ack;
mod attributes;
mod dispatch;
mod error;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod job_id;
mod job_view;
mod peek;
mod publish;
mod publish_answer;
mod publish_bulk;
mod publish_params;
mod purge;
mod republish;
mod request_token;
mod reserve;
mod respawn;
mod routes;
mod scope;
mod stats;
mod unmatched;

pub(crate) use dispatch::handle;
pub(crate) use error::over_budget;
pub use routes::api_label;
