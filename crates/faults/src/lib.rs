//! Tries to make the service lose, double or hurry a job, and tells whether it did.
//!
//! ```text
//!  seed ─► plan ─► run ─┬─► site      real daemons, a real Redis, a proxy on every way between them
//!                       ├─► traffic   producers and consumers, good and bad ones ─► history
//!                       ├─► strike    one fault after the other ─► episodes in the history
//!                       ├─► audit     with --repair, during the whole run, and in the end
//!                       ├─► drain     until every job is accounted for
//!                       └─► baseline  what lateness is without faults
//!                              ▼
//!                           oracle    a pure function: history ─► verdict
//!                              ▼
//!                           report    a table, a picture, and everything as files
//! ```
//!
//! Whatever is drawn by chance comes from the seed of the run, so a run can be repeated; what the machine does at
//! which moment cannot.

mod audit;
mod baseline;
mod drain;
pub mod fault;
pub mod history;
mod measure;
pub mod oracle;
pub mod plan;
mod recorder;
pub mod report;
mod run;
mod site;
mod strike;
mod traffic;
mod unasked;
mod yardstick;

pub use audit::Audits;
pub use baseline::Baseline;
pub use fault::Class;
pub use measure::{measure, yardstick};
pub use plan::{Plan, Wishes};
pub use run::{Step, run};
