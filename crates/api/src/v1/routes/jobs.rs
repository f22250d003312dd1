//! Operations on the jobs of a queue: publishing, showing, changing and cancelling them.

use std::pin::pin;

use tidegate_core::Scope;
use tidegate_core::v1::problem::ProblemCode::{
    DelayAndRunAt, IdempotencyKeyReused, JobDead, JobNotFound, JobRunning, KeyTaken,
    KeysInSeveralLanes, NamespaceFull, NotDurable, PayloadNotJson, PayloadTooLarge,
    PayloadUnavailable, QueueClosed, QueueFull, RateLimited, RunAtOutOfRange, TooManyWaiting,
};
use utoipa::openapi::HttpMethod::{Delete, Get, Patch, Post};

use super::handler::{answered, within_limit, within_share};
use super::headers::AnswerHeader;
use super::operation::{BodyShape, OperationRow, json, operation};
use super::parameters::{of_call, of_cancel, of_job, of_job_list, of_publish, of_result};
use crate::http::time_limit::with_time_limit;
use crate::v1::{batch, explain, job, job_list, publish, result};

const JOBS: &str = "/v1/{namespace}/queues/{queue}/jobs";
const ACT: &str = "/v1/{namespace}/queues/{queue}/jobs/act";
const CALL: &str = "/v1/{namespace}/queues/{queue}/jobs/call";
const BATCH: &str = "/v1/{namespace}/queues/{queue}/jobs/batch";
const JOB: &str = "/v1/{namespace}/queues/{queue}/jobs/{job}";
const PAYLOAD: &str = "/v1/{namespace}/queues/{queue}/jobs/{job}/payload";
const EXPLAIN: &str = "/v1/{namespace}/queues/{queue}/jobs/{job}/explain";
const RESULT: &str = "/v1/{namespace}/queues/{queue}/jobs/{job}/result";
const PROMOTE: &str = "/v1/{namespace}/queues/{queue}/jobs/{job}/promote";

/// Storing the job has the time limit of requests. The wait for its end has a limit of its own.
macro_rules! publishing {
    ($publish:path) => {
        answered!(|incoming| {
            let limit = incoming.app.request_limits.timeout;
            let wait_time = incoming.api_request.body.wait_time();
            let storing = pin!(async move { $publish(incoming.open_with_options().await?).await });
            let stored = with_time_limit(storing, limit, wait_time).await?;
            stored.answer().await
        })
    };
}

/// The problems of a publish of one job.
macro_rules! publish_problems {
    ($($further:expr),*) => {
        &[
            DelayAndRunAt,
            RunAtOutOfRange,
            KeyTaken,
            QueueClosed,
            NamespaceFull,
            IdempotencyKeyReused,
            RateLimited,
            QueueFull,
            NotDurable,
            $($further),*
        ]
    };
}

pub(super) const OPERATIONS: [OperationRow; 12] = [
    operation(
        Post,
        JOBS,
        "publish",
        Scope::Publish,
        publishing!(publish::publish),
    )
        .about(
            "Publish a job",
            "The body is the payload, of any content type and up to 1 MiB (`requests.job_bytes_max`). Without a content type, or with the \
             content type of a form, a body that is valid JSON is JSON. Each option may also be a header: `Tidegate-Run-At` for \
             `run_at`, `Idempotency-Key` for `idempotency_key`; an option in both is an error. Each header `Job-Attr-NAME` is an attribute \
             of the job. A header `traceparent` continues the trace of the caller, if the server has a collector.\n\nWithout a \
             key every publish is a new job. With `key`, `if_exists` decides what happens to a job that has it.",
        )
        .parameters(of_publish)
        .body(BodyShape::Payload)
        .answers(&[
            json(200, "PublishedJob", "A job has the key, or the request is a repetition; see `outcome`.")
                .headers(&[AnswerHeader::Replayed]),
            json(201, "PublishedJob", "There is a new job."),
        ])
        .problems(publish_problems!()),
    operation(
        Post,
        CALL,
        "call",
        Scope::Publish,
        publishing!(publish::call),
    )
        .about(
            "Publish a job, and wait for its result",
            "As `publish`, but the answer is the result of the job, as soon as a worker has returned it. With a `key` it is safe to repeat. \
             It needs the scope `read`, too.",
        )
        .parameters(of_call)
        .body(BodyShape::Payload)
        .answers(&[
            json(200, "", "The result.")
                .body(BodyShape::Payload)
                .headers(&[AnswerHeader::JobId]),
            json(202, "PublishedJob", "The job is stored, and has not ended in time."),
            json(204, "", "The job is done, without a result.")
                .body(BodyShape::Nothing)
                .headers(&[AnswerHeader::JobId]),
        ])
        .problems(publish_problems!(JobNotFound, JobDead, TooManyWaiting)),
    operation(
        Get,
        JOBS,
        "list_jobs",
        Scope::Read,
        within_share!(job_list::list),
    )
        .about(
            "List the jobs of a queue",
            "The jobs that match all parameters, in pages. Ready and dead jobs come in the order of their lists, others in no order. A job whose \
             state and due time stay as they are during the whole list is in it, perhaps twice. There is no index: a page is sought among the \
             jobs of the queue, 10,000 at most, so it may be empty and yet not the last one.",
        )
        .parameters(of_job_list)
        .answers(&[json(200, "JobListPage", "A page of jobs.")]),
    operation(
        Post,
        ACT,
        "act_on_jobs",
        Scope::Admin,
        within_share!(job_list::act),
    )
        .about(
            "Act on all jobs that match a filter",
            "Cancels, promotes, respawns, purges or changes jobs, one page a call; with `dry_run` they are only counted. It is repeated with the \
             cursor of its answer until that is `null`. A repeated call finds the jobs that are left; no job is changed twice. With \
             `rate_per_second` dead jobs become due at even spaces, as far as 10 s ahead: `wait_ms` is how long to wait then. Jobs that die \
             again in the meantime stay dead.",
        )
        .body(BodyShape::Json("ActBody"))
        .answers(&[json(200, "ActAnswer", "How many jobs were found and changed.")])
        .problems(&[DelayAndRunAt, RunAtOutOfRange]),
    operation(
        Post,
        BATCH,
        "publish_batch",
        Scope::Publish,
        within_limit!(batch::publish_batch),
    )
        .about(
            "Publish several jobs",
            "Up to 1,000 jobs and 64 MiB (`requests.bulk_bytes_max`), stored in their order. With `atomic`, up to 64 jobs are stored or none.",
        )
        .body(BodyShape::Json("BatchBody"))
        .answers(&[
            json(200, "BatchAnswer", "A result for each job, in the order of the request; some may be problems."),
            json(201, "BatchAnswer", "`atomic`: all jobs are stored."),
        ])
        .problems(&[
            DelayAndRunAt,
            RunAtOutOfRange,
            KeyTaken,
            KeysInSeveralLanes,
            QueueClosed,
            NamespaceFull,
            PayloadTooLarge,
            PayloadNotJson,
            IdempotencyKeyReused,
            RateLimited,
            QueueFull,
            NotDurable,
        ]),
    operation(
        Get,
        JOB,
        "show_job",
        Scope::Read,
        within_limit!(job::show),
    )
        .or_by_key(Scope::Publish)
        .about(
            "Show a job",
            "All about a job except its payload. With the scope `publish` alone, only a job named by its key is shown.",
        )
        .parameters(of_job)
        .answers(&[json(200, "JobDetails", "The job.")])
        .problems(&[JobNotFound, PayloadUnavailable]),
    operation(
        Patch,
        JOB,
        "change_job",
        Scope::Publish,
        within_limit!(job::change),
    )
        .about("Change when a job runs", "The job must be waiting. Payload and attributes change only by a publish with `if_exists=replace`.")
        .parameters(of_job)
        .body(BodyShape::Json("JobChange"))
        .answers(&[json(200, "ChangedJob", "The job after the change.")])
        .problems(&[DelayAndRunAt, RunAtOutOfRange, JobNotFound, JobRunning, JobDead]),
    operation(
        Delete,
        JOB,
        "cancel_job",
        Scope::Publish,
        within_limit!(job::cancel),
    )
        .about("Cancel a job", "Deletes a job that no worker holds. `running` decides what happens if a worker holds the job.")
        .parameters(of_cancel)
        .answers(&[
            json(200, "CancelAnswer", "The job will not run; see `outcome`."),
            json(202, "CancelAnswer", "The worker that holds the job is notified when it extends its lease."),
        ])
        .problems(&[JobNotFound, JobRunning]),
    operation(
        Get,
        EXPLAIN,
        "explain_job",
        Scope::Read,
        within_limit!(explain::explain),
    )
        .about(
            "Explain a job",
            "Says why the job is not delivered now, or not any more: a cause, a remedy in one sentence, and facts.",
        )
        .parameters(of_job)
        .answers(&[json(200, "JobExplanation", "Why the job is where it is.")])
        .problems(&[JobNotFound]),
    operation(
        Get,
        PAYLOAD,
        "show_payload",
        Scope::Read,
        within_limit!(job::payload),
    )
        .about("Show the payload of a job", "The body of the answer is the payload, with its content type.")
        .parameters(of_job)
        .answers(&[json(200, "", "The payload.")
            .body(BodyShape::Payload)
            .headers(&[AnswerHeader::NoSniff, AnswerHeader::Sandbox])])
        .problems(&[JobNotFound, PayloadUnavailable]),
    operation(
        Get,
        RESULT,
        "show_result",
        Scope::Read,
        answered!(|incoming| {
            // Each look at Redis has a time limit.
            result::result(incoming.open().await?).await
        }),
    )
        .about(
            "Fetch the result of a job",
            "The result that a worker returned with its ack. It is kept as long as the job (`retain`). With `wait` the answer comes when the job has ended.",
        )
        .parameters(of_result)
        .answers(&[
            json(200, "", "The result, with its content type.")
                .body(BodyShape::Payload)
                .headers(&[AnswerHeader::JobId, AnswerHeader::NoSniff, AnswerHeader::Sandbox]),
            json(202, "UnfinishedJob", "The job has not ended."),
            json(204, "", "The job is done, without a result.").body(BodyShape::Nothing),
        ])
        .problems(&[JobNotFound, JobDead, TooManyWaiting]),
    operation(
        Post,
        PROMOTE,
        "promote_job",
        Scope::Publish,
        within_limit!(job::promote),
    )
        .about("Run a job now", "A delayed job becomes ready without waiting for its time.")
        .parameters(of_job)
        .answers(&[json(200, "PromotedJob", "The job is ready.")])
        .problems(&[JobNotFound, JobRunning, JobDead]),
];
