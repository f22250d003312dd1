//! A server for your tests: the real daemons, on a Redis that only this test uses.
//!
//! [`Server::start`] needs three programs. Each is taken from the builder, else from an environment variable, else from
//! `$PATH`:
//!
//! | program | variable | where it comes from |
//! |---|---|---|
//! | `tidegate-api` | `TG_API` | `cargo build --release` in the sources of Tidegate; also found beside the running test |
//! | `tidegate-pumpd` | `TG_PUMPD` | the same |
//! | `redis-server` | `TG_REDIS_SERVER` | the package `redis-server` or `valkey-server` of your system; not needed with [`ServerBuilder::redis_url`] |

mod admin;
mod error;
mod process;
mod program;
mod server;

pub use error::TestingError;
pub use server::{Server, ServerBuilder};
