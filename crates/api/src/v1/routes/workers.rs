//! Operations of workers: reserving jobs, and settling their leases.

use tidegate_core::Scope;
use tidegate_core::v1::problem::ProblemCode::{
    PayloadNotJson, PayloadTooLarge, RateLimited, TooManyWaiting,
};
use utoipa::openapi::HttpMethod::{Get, Post};

use super::handler::{answered, within_limit, within_share};
use super::headers::AnswerHeader;
use super::operation::{BodyShape, OperationRow, json, operation};
use super::parameters::of_list;
use crate::v1::{reserve, settle, workers};

/// The headers of a raw answer.
const OF_RAW: &[AnswerHeader] = &[
    AnswerHeader::JobId,
    AnswerHeader::Queue,
    AnswerHeader::Lease,
    AnswerHeader::LeaseUntil,
    AnswerHeader::Attempt,
    AnswerHeader::Key,
    AnswerHeader::TraceParent,
];

/// A reserve enforces its time limit itself. The part that reads the request has a box of its own, which is freed before
/// the wait.
macro_rules! reserving {
    ($format:ident) => {
        answered!(|incoming| {
            let opening = Box::pin(reserve::open(incoming, reserve::PayloadFormat::$format));
            reserve::reserve(opening.await?).await
        })
    };
}

pub(super) const OPERATIONS: [OperationRow; 7] = [
    operation(
        Get,
        "/v1/{namespace}/workers",
        "list_workers",
        Scope::Read,
        within_share!(workers::list),
    )
        .about(
            "List workers",
            "The workers that have given their names in reserve calls within the last minute, or hold jobs, with these jobs. A page ends after \
             `limit` workers, or when they have 1,000 jobs.",
        )
        .parameters(of_list)
        .answers(&[json(200, "WorkerListPage", "A page of workers, by name.")]),
    operation(
        Post,
        "/v1/{namespace}/reserve",
        "reserve",
        Scope::Consume,
        reserving!(Json),
    )
        .about(
            "Reserve jobs",
            "Leases ready jobs of up to 16 queues to the worker, and waits for them if there are none. A job whose lease expires is \
             delivered again.\n\nWith `settle` the call first reports the ends of jobs that the worker holds, as `ack` and `fail` do, so \
             that a worker needs one request for both. It is safe to repeat; an error after that has `applied` `unknown`.",
        )
        .body(BodyShape::Json("ReserveBody"))
        .answers(&[json(200, "ReserveAnswer", "The jobs, none if there was no ready job.")])
        .problems(&[RateLimited, TooManyWaiting, PayloadTooLarge, PayloadNotJson]),
    operation(
        Post,
        "/v1/{namespace}/reserve/raw",
        "reserve_raw",
        Scope::Consume,
        reserving!(Raw),
    )
        .about(
            "Reserve one job, and return its payload",
            "As `reserve`, but the body of the answer is the payload of one job, and the rest is in headers: `Tidegate-…`, and \
             `Job-Attr-NAME` for each attribute. Keys and attributes are percent-encoded UTF-8. It has no `settle`, and `max_jobs` is 1.",
        )
        .body(BodyShape::Json("ReserveBody"))
        .answers(&[
            json(200, "", "The payload.").body(BodyShape::Payload).headers(OF_RAW),
            json(204, "", "There was no ready job.").body(BodyShape::Nothing),
        ])
        .problems(&[RateLimited, TooManyWaiting]),
    operation(
        Post,
        "/v1/{namespace}/ack",
        "ack",
        Scope::Consume,
        within_limit!(settle::ack),
    )
        .about("Acknowledge jobs", "The jobs are done, and deleted unless they are retained. Each may have a result, which is kept with it. It is safe to repeat.")
        .body(BodyShape::Json("AckBody"))
        .answers(&[json(200, "AckAnswer", "An outcome for each lease, in the order of the request.")])
        .problems(&[PayloadTooLarge, PayloadNotJson]),
    operation(
        Post,
        "/v1/{namespace}/fail",
        "fail",
        Scope::Consume,
        within_limit!(settle::fail),
    )
        .about("Report failed attempts", "The jobs are retried as their retry policies say, or dead after their last attempt.")
        .body(BodyShape::Json("FailBody"))
        .answers(&[json(200, "FailAnswer", "An outcome for each lease, in the order of the request.")]),
    operation(
        Post,
        "/v1/{namespace}/touch",
        "touch",
        Scope::Consume,
        within_limit!(settle::touch),
    )
        .about("Extend leases", "The worker holds the jobs for longer. A lease never becomes shorter.")
        .body(BodyShape::Json("TouchBody"))
        .answers(&[json(200, "TouchAnswer", "An outcome for each lease, in the order of the request.")]),
    operation(
        Post,
        "/v1/{namespace}/release",
        "release",
        Scope::Consume,
        within_limit!(settle::release),
    )
        .about("Give jobs back", "The jobs are ready again, or delayed. This is not a failure, and uses no attempt.")
        .body(BodyShape::Json("ReleaseBody"))
        .answers(&[json(200, "ReleaseAnswer", "An outcome for each lease, in the order of the request.")]),
];
