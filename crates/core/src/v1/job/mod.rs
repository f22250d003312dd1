//! Jobs: show, list, change, promote, cancel, result, and actions on many.

mod act;
mod cancel;
mod change;
mod details;
mod explain;
mod filter;
mod list;
mod result;

pub use act::{ActAnswer, ActBody, ActName};
pub use cancel::{CancelAnswer, CancelQuery};
pub use change::{ChangeBody, ChangeResult, ChangedJob, PromoteResult, PromotedJob};
pub use details::{DeadReason, HistoryEntry, JobDetails, JobQuery};
pub use explain::{FactCode, JobCause, JobExplanation, JobFact};
pub use filter::JobFilter;
pub use list::JobListPage;
pub use result::{ResultQuery, UnfinishedJob};
