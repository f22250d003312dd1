//! Injects faults into a deployment under load, and checks that no job is lost, duplicated, early or late.
//!
//! ```text
//!  seed ─► plan ─► run ─┬─► test_cluster  real daemons, a real Redis, and a proxy on every connection between them
//!                       ├─► traffic       producers and consumers, well-behaved and not ─► history
//!                       ├─► injection     injects one fault after the other ─► episodes in the history
//!                       ├─► audit         with --repair, during the whole run and at its end
//!                       ├─► drain         until every job is accounted for
//!                       └─► baseline      lateness without faults
//!                              ▼
//!                           oracle    a pure function: history ─► verdict
//!                              ▼
//!                           report    a table, and all data as files
//! ```
//!
//! All random choices come from the seed of the run, so a plan can be repeated. The timing of the machine cannot.

mod audit;
mod baseline;
pub mod deployment;
mod drain;
pub mod fault;
pub mod history;
mod injection;
mod machine_monitor;
mod measure;
pub mod oracle;
pub mod plan;
mod recorder;
pub mod report;
mod run;
pub mod soak;
mod test_cluster;
mod traffic;
mod unexpected_failover;
mod wire;

pub use audit::Audits;
pub use baseline::Baseline;
pub use fault::Class;
pub use measure::{baseline, measure_baseline};
pub use plan::{Plan, PlanOptions};
pub use run::{RunProgress, run};
