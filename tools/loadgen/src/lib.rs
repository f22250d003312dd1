//! A load generator for servers that speak the wire of lmstfy, and for the native API of Tidegate.
//!
//! ```text
//!  main ─► compare ─► scenarios/NAME ─► load_clients (fill, publish, consume, drain) ─► wire, http ─► server
//!  flags    A B A B    what is measured      │         └► request_schedule: closed loop, open loop
//!                          ▼                 ▼
//!                        report            job_tracker: every job once, none early
//! ```
//!
//! With the wire of lmstfy, which is the default, it can measure any compatible server. Memory of Redis
//! and CPU time of processes are measured only if the Redis or the processes are named. One thread does all
//! the work: prepared requests, no task per connection, no copies of answers.
//!
//! Figures are valid only if every job was delivered exactly once and not early. Each body has a unique
//! number, and [`ScenarioReport::problems`] lists violations.

mod body;
mod clock;
mod compare;
mod cpu;
mod direct_calls;
mod error;
mod floor_server;
mod http;
mod job_stream;
mod job_tracker;
mod load_clients;
mod redis_info;
mod report;
mod request_schedule;
mod run;
mod scenarios;
mod server;
mod spread;
mod table;
mod verb_load;
mod wire;

pub use compare::{Comparison, LoadgenResults, run};
pub use error::LoadgenError;
pub use report::{Figure, Goal, ScenarioReport};
pub use scenarios::Scenario;
pub use server::ServerOptions;
pub use table::table;
pub use wire::protocol::Wire;
