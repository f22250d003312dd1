//! The shapes of the native HTTP API, `/v1`: requests, answers, problems, their limits and their checks.
//!
//! Requests are read with [`input::read_body`] and [`input::read_query`], which reject unknown fields and name the
//! invalid one. Answers ignore unknown fields when they are read, so that later servers may add some. Every type has
//! an OpenAPI schema, with the feature `openapi`.

pub mod cold;
pub mod consume;
pub mod input;
pub mod job;
pub mod keys;
pub mod namespace;
pub mod problem;
pub mod publish;
pub mod queue;
pub mod rate;
pub mod relay;
pub mod retry;
pub mod schedule;
pub mod values;
pub mod workers;

mod checks;
mod delete;
mod field_change;
mod page;
mod precondition;

pub use delete::DeleteAnswer;
pub use field_change::FieldChange;
pub use page::Page;
pub use precondition::Precondition;
