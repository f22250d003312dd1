//! Consuming jobs: reserve, then ack, fail, touch or release.

mod outcome;
mod reserve;
mod settle;

pub use outcome::{Outcome, SettleAnswer, SettleCall, SettledJobs};
pub use reserve::{LeasedJobView, QueueChoice, ReserveAnswer, ReserveBody};
pub use settle::{AckBody, AckItem, FailBody, FailItem, ReleaseBody, SettleBody, TouchBody};
