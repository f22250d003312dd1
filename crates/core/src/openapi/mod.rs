//! The OpenAPI schemas of all types.

pub(crate) mod answer;
mod embedding;
pub(crate) mod items;
pub(crate) mod kinds;
mod settle;
mod values;

use utoipa::OpenApi;

use settle::SettleAnswerSchemas;

use crate::v1::consume::{AckBody, FailBody, ReleaseBody, ReserveAnswer, ReserveBody, TouchBody};
use crate::v1::job::{
    ActAnswer, ActBody, CancelAnswer, ChangedJob, JobChange, JobDetails, JobExplanation,
    JobListPage, PromotedJob, UnfinishedJob,
};
use crate::v1::keys::{CreateKeyBody, CreatedKey, KeyPage, RevokedKey};
use crate::v1::problem::Problem;
use crate::v1::publish::{BatchAnswer, BatchBody, JobContent, JobOptions};
use crate::v1::queue::{
    DeletedQueue, LanesListPage, PolicyChange, PolicyListPage, PurgeAnswer, PurgeBody, QueueLanes,
    QueueListPage, Respawn, RespawnAnswer, SetLanesBody,
};
use crate::v1::relay::{DeletedRelay, RelayConfig, RelayDetails, RelayListPage};
use crate::v1::schedule::{
    DeletedSchedule, Schedule, ScheduleDetails, ScheduleListPage, ScheduleRuns,
};
use crate::v1::values::{PageSize, QueueWeight, RunCount};
use crate::v1::workers::WorkerListPage;
use crate::{IfRunning, Namespace, Policy};

/// The schemas of all requests and answers, and of the types in them. Routes are added where they are served.
#[derive(Debug, OpenApi)]
#[openapi(modifiers(&SettleAnswerSchemas), components(schemas(
    AckBody,
    ActAnswer,
    ActBody,
    BatchAnswer,
    BatchBody,
    CancelAnswer,
    JobChange,
    ChangedJob,
    CreateKeyBody,
    CreatedKey,
    DeletedQueue,
    DeletedRelay,
    DeletedSchedule,
    FailBody,
    IfRunning,
    JobContent,
    JobDetails,
    JobExplanation,
    JobListPage,
    JobOptions,
    KeyPage,
    LanesListPage,
    Namespace,
    PageSize,
    PolicyChange,
    PolicyListPage,
    Problem,
    PromotedJob,
    PurgeAnswer,
    PurgeBody,
    QueueLanes,
    QueueListPage,
    QueueWeight,
    Policy,
    RelayConfig,
    RelayDetails,
    RelayListPage,
    ReleaseBody,
    ReserveAnswer,
    ReserveBody,
    RespawnAnswer,
    Respawn,
    RevokedKey,
    RunCount,
    Schedule,
    ScheduleDetails,
    ScheduleListPage,
    ScheduleRuns,
    SetLanesBody,
    TouchBody,
    UnfinishedJob,
    WorkerListPage,
)))]
pub struct ApiSchemas;
