//! Single jobs: show, change, promote, cancel.

mod cancel;
mod change;
mod details;

pub use cancel::{CancelAnswer, CancelQuery};
pub use change::{ChangeBody, ChangeResult, ChangedJob, PromoteResult, PromotedJob};
pub use details::{DeadReason, HistoryEntry, JobDetails, JobQuery};
