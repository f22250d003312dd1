#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod call;
mod client;
mod condition;
mod cursors;
mod error;
mod job_handle;
mod limit_handle;
mod publish;
mod queue;
mod repeat;
mod schedule_handle;
mod task;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "opentelemetry")]
mod traces;
mod transport;
mod worker;

pub use call::{CallError, JobResult};
pub use client::{Client, ClientBuilder};
pub use cursors::CursorGuard;
pub use error::{BoxError, Error, Rejection};
pub use job_handle::{CancelResult, JobHandle, PublishedHandle};
pub use limit_handle::LimitHandle;
pub use publish::{BatchJob, BatchPublish, Publish};
pub use queue::QueueHandle;
pub use repeat::RepeatLimits;
pub use schedule_handle::ScheduleHandle;
pub use task::Task;
pub use worker::{
    CancelReason, Data, Fail, FromJob, Handler, Job, JobReply, JobService, MissingData, RawHandler,
    Worker, WorkerRun,
};

pub use tidegate_core::schedule::{CatchUp, Overlap};
pub use tidegate_core::v1::job::{JobChange, JobDetails, JobFilter};
pub use tidegate_core::v1::problem::{Applied, Problem, ProblemCode};
pub use tidegate_core::v1::publish::PublishResult;
pub use tidegate_core::v1::queue::{
    GroupPolicyChange, LimitDetails, PolicyChange, PurgeState, Respawn,
};
pub use tidegate_core::v1::rate::RateChange;
pub use tidegate_core::v1::retry::RetryChange;
pub use tidegate_core::v1::schedule::{Schedule, ScheduleDetails, ScheduleJob};
pub use tidegate_core::v1::values::{DurationMs, Timestamp};
pub use tidegate_core::v1::{FieldChange, Precondition};
pub use tidegate_core::{
    Durability, IfExists, IfRunning, JobId, JobState, JobsByState, Namespace, Policy, QueueName,
    Rate, RetryPolicy, Scope, limits, v1 as api,
};
