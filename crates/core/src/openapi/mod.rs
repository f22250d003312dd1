//! The OpenAPI schemas of all types.

pub(crate) mod answer;
mod embedding;
pub(crate) mod items;
pub(crate) mod kinds;
mod pages;
pub(crate) mod settle;
mod values;

use utoipa::OpenApi;

use pages::PageSchemas;
use settle::SettleAnswerSchemas;

use crate::v1::DeleteAnswer;
use crate::v1::consume::{AckBody, FailBody, ReleaseBody, ReserveAnswer, ReserveBody, TouchBody};
use crate::v1::job::{
    ActAnswer, ActBody, CancelAnswer, ChangedJob, JobChange, JobDetails, JobExplanation,
    PromotedJob, UnfinishedJob,
};
use crate::v1::keys::{CreateKeyBody, CreatedKey, KeyPage, RevokedKey};
use crate::v1::namespace::NamespaceDetails;
use crate::v1::problem::Problem;
use crate::v1::publish::{BatchAnswer, BatchBody, JobContent, JobOptions};
use crate::v1::queue::{
    LimitDetails, PolicyChange, PurgeAnswer, PurgeBody, QueueLanes, QueuePolicy, QueueView,
    Respawn, RespawnAnswer, SetLanesBody,
};
use crate::v1::rate::RateChange;
use crate::v1::relay::{RelayConfig, RelayDetails};
use crate::v1::schedule::{Schedule, ScheduleDetails, ScheduleRuns};
use crate::v1::values::{PageSize, QueueWeight, RunCount};
use crate::v1::workers::WorkerView;
use crate::{IfRunning, Namespace, Policy};

/// The schemas of all requests and answers, and of the types in them. Routes are added where they are served.
#[derive(Debug, OpenApi)]
#[openapi(modifiers(&PageSchemas, &SettleAnswerSchemas), components(schemas(
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
    DeleteAnswer,
    FailBody,
    IfRunning,
    JobContent,
    JobDetails,
    JobExplanation,
    JobOptions,
    KeyPage,
    LimitDetails,
    Namespace,
    NamespaceDetails,
    QueuePolicy,
    QueueView,
    WorkerView,
    PageSize,
    PolicyChange,
    Problem,
    PromotedJob,
    PurgeAnswer,
    PurgeBody,
    QueueLanes,
    QueueWeight,
    Policy,
    RateChange,
    RelayConfig,
    RelayDetails,
    ReleaseBody,
    ReserveAnswer,
    ReserveBody,
    RespawnAnswer,
    Respawn,
    RevokedKey,
    RunCount,
    Schedule,
    ScheduleDetails,
    ScheduleRuns,
    SetLanesBody,
    TouchBody,
    UnfinishedJob,
)))]
pub struct ApiSchemas;
