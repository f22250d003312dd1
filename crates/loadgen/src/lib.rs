//! A load generator for servers that speak the wire of lmstfy.
//!
//! ```text
//!  main ─► compare ─► scenarios/NAME ─► crew (fill, publish, consume, drain) ─► wire, http ─► server
//!  flags    A B A B    what is measured      │         └► pace: closed loop, open loop
//!                          ▼                 ▼
//!                        report            ledger: every job once, none early
//! ```
//!
//! Only the wire is spoken, so any compatible server can be measured; what needs more than the wire (memory
//! of Redis, CPU of processes) is asked only where it was named. One thread does all the work: prepared
//! requests, no task for each connection, no copies of answers.
//!
//! No figure counts unless every job came back exactly once and not early. Each body has its own number,
//! and [`Report::problems`] says what did not hold.

mod body;
mod clock;
mod compare;
mod cpu;
mod crew;
mod error;
mod http;
mod ledger;
mod pace;
mod plot;
mod redis_info;
mod report;
mod run;
mod scenarios;
mod server;
mod stream;
mod table;
mod wire;

pub use compare::{Comparison, Outcome, run};
pub use error::Error;
pub use plot::plot;
pub use report::{Figure, Goal, Report, Series};
pub use scenarios::Scenario;
pub use server::ServerOptions;
pub use table::table;
