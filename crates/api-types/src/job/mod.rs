//! Single jobs: show, change, promote, cancel, result.

mod cancel;
mod change;
mod details;
mod result;

pub use cancel::{CancelAnswer, CancelQuery};
pub use change::{ChangeBody, ChangeResult, ChangedJob, PromoteResult, PromotedJob};
pub use details::{DeadReason, HistoryEntry, JobDetails, JobQuery};
pub use result::{ResultQuery, UnfinishedJob};
