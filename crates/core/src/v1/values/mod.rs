//! Single values: the accepted texts, and how they are written. A value of these types is valid.

mod attributes;
mod base64_bytes;
mod choices;
mod content_type;
mod duration;
mod error_text;
mod header_text;
mod job_path;
mod json_text;
mod numbers;
mod payload;
mod portable_json;
mod text;
mod timestamp;

pub use attributes::JobAttributes;
pub use base64_bytes::Base64Bytes;
pub use choices::QueueOrder;
pub use content_type::ContentType;
pub use duration::DurationMs;
pub use error_text::ErrorText;
pub use header_text::header_text;
pub use job_path::JobPath;
pub use json_text::JsonText;
pub(crate) use json_text::even_null;
pub use numbers::{
    JobsPerSecond, MaxAttempts, MaxDeliveries, MaxJobs, PageSize, Priority, QueueWeight, RunCount,
};
pub use payload::{JobPayload, check_json_payload};
pub use text::{
    AttributeText, CursorText, FilterText, IdempotencyKey, JobGroup, JobKey, LeaseText,
    LimitNameText, PoolText, RelayNameText, ScheduleNameText, WorkerNameText,
};
pub use timestamp::Timestamp;
