//! Consuming jobs: reserve, then ack, fail, touch or release.

mod outcomes;
mod reserve;
mod settle;

pub use outcomes::{
    AckAnswer, AckItemOutcome, FailAnswer, FailItemOutcome, ReleaseAnswer, ReleaseItemOutcome,
    TouchAnswer, TouchItemOutcome,
};
pub use reserve::{LeasedJobView, QueueChoice, ReserveAnswer, ReserveBody};
pub use settle::{AckBody, AckItem, FailBody, FailItem, ReleaseBody, TouchBody};
