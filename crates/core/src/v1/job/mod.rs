//! Jobs: show, list, change, promote, cancel, result, and actions on many.

mod act;
mod cancel;
mod change;
mod content;
mod details;
mod error_digest;
mod explain;
mod filter;
mod result;

pub use act::{ActAnswer, ActBody, ActName};
pub use cancel::{CancelAnswer, CancelQuery};
pub use change::{ChangeResult, ChangedJob, JobChange, PromoteResult, PromotedJob};
pub use content::stored_attributes;
pub use details::{DeadReason, HistoryEntry, JobDetails, JobQuery};
pub use error_digest::ErrorDigest;
pub use explain::{FactCode, JobCause, JobExplanation, JobFact};
pub use filter::JobFilter;
pub use result::{ResultQuery, UnfinishedJob};
