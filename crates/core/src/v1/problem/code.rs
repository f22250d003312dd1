//! The closed list of problem codes: the only table of their statuses, titles and descriptions.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whether the change that a request asked for was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Applied {
    /// Nothing was changed.
    No,
    /// The change was made: the jobs are stored, but less durable than requested.
    Yes,
    /// The server does not know. Repeating a publish without a key may create a second job.
    Unknown,
}

/// A row of the list of codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProblemInfo {
    /// The code that this is about.
    pub code: ProblemCode,
    /// Its text in problem documents.
    pub name: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// A summary that is the same for all problems with this code.
    pub title: &'static str,
    /// Whether the change was made, unless the problem document says something else. `Unknown` where a server may
    /// know more: that it sent nothing to Redis.
    pub applied: Applied,
    /// When it is returned, and the remedy, for the documentation.
    pub description: &'static str,
}

macro_rules! problem_codes {
    ($($variant:ident $name:literal $status:literal $applied:ident $title:literal: $description:literal)*) => {
        /// The machine-readable reason of a problem, from a closed list.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(rename_all = "snake_case")]
        pub enum ProblemCode {
            $(
                #[doc = $description]
                $variant,
            )*
        }

        impl ProblemCode {
            /// The list: every code once, by status.
            pub const ALL: &'static [ProblemInfo] = &[$(ProblemInfo {
                code: Self::$variant,
                name: $name,
                status: $status,
                title: $title,
                applied: Applied::$applied,
                description: $description,
            },)*];
        }
    };
}

problem_codes! {
    InvalidParameter "invalid_parameter" 400 No "Invalid parameter":
        "A query parameter, header or field has a value that is not allowed, or is unknown. `field` names it."
    InvalidBody "invalid_body" 400 No "Invalid body":
        "The body is not the JSON object that the route expects. `detail` names the difference, `field` its place."
    InvalidName "invalid_name" 400 No "Invalid name":
        "The name of a namespace or queue is not 1 to 255 bytes of letters, digits, `-` and `_`."
    DelayAndRunAt "delay_and_run_at" 400 No "Both delay and run_at":
        "`delay` and `run_at` were both given. Send one of them."
    RunAtOutOfRange "run_at_out_of_range" 400 No "run_at out of range":
        "`run_at` is before 1970 or after 2527-06-23, or `delay` is longer than 557 years."
    KeyMissing "key_missing" 401 No "API key missing":
        "The request has no API key. Send it as `Authorization: Bearer tg_…`."
    KeyInvalid "key_invalid" 401 No "API key invalid":
        "The API key is unknown, expired or revoked."
    ScopeMissing "scope_missing" 403 No "Scope missing":
        "The API key does not have the scope that the route needs. `detail` names the scope."
    NamespaceForbidden "namespace_forbidden" 403 No "Namespace forbidden":
        "The API key is for another namespace."
    JobNotFound "job_not_found" 404 No "Job not found":
        "The queue has no job with this id or key: it is done, cancelled or expired, or never existed."
    KeyNotFound "key_not_found" 404 No "API key not found":
        "No API key with this id can be managed with the key of the request."
    LimitNotFound "limit_not_found" 404 No "Limit not found":
        "The namespace has no limit with this name."
    RelayNotFound "relay_not_found" 404 No "Relay not found":
        "The namespace has no relay with this name."
    ScheduleNotFound "schedule_not_found" 404 No "Schedule not found":
        "The namespace has no schedule with this name."
    RouteNotFound "route_not_found" 404 No "Route not found":
        "No route has this path."
    MethodNotAllowed "method_not_allowed" 405 No "Method not allowed":
        "The path exists, but not with this method. The header `Allow` lists the methods."
    RequestTimeout "request_timeout" 408 No "Request timeout":
        "The request did not arrive completely within the time limit. Send it again."
    KeyExists "key_exists" 409 No "API key exists":
        "There is another API key with the id in `secret`. It is not changed."
    KeyTaken "key_taken" 409 No "Key taken":
        "A job has this key, and `if_exists` is `reject`. Show it by its key, or leave out `if_exists`."
    KeysInSeveralLanes "keys_in_several_lanes" 409 No "Keys in several lanes":
        "The jobs of an atomic batch have keys in several lanes of their queue, which cannot be changed in one step. Without a key the group counts, or else the `Idempotency-Key`. Publish them without `atomic`, or in one batch for each lane, or set the queue to one lane."
    JobRunning "job_running" 409 No "Job running":
        "A worker holds the job. Cancel it with `running=ask` or `running=revoke`, or wait."
    JobDead "job_dead" 409 No "Job dead":
        "The job is in the dead letter. Respawn it first."
    QueueClosed "queue_closed" 409 No "Queue closed":
        "The policy of the queue has `closed`: it takes no new jobs."
    QueueNotEmpty "queue_not_empty" 409 No "Queue not empty":
        "Only a queue without jobs can be deleted. Purge it first."
    NamespaceFull "namespace_full" 409 No "Namespace full":
        "The namespace has as many jobs, queues, policies, limits, schedules, relays or API keys as it may; `detail` has the name of the limit. End jobs, or delete an entry of this kind. A queue without jobs is forgotten within two minutes."
    LimitInUse "limit_in_use" 409 No "Limit in use":
        "The policy of a queue names the limit; `detail` has the queue. Change the policy first."
    LimitUnreadable "limit_unreadable" 409 No "Limit unreadable":
        "The stored limit is damaged, or of a later release; it limits nothing. Replace it with `PUT`."
    LanesUnsettled "lanes_unsettled" 409 No "Lanes unsettled":
        "Jobs with keys, or remembered requests, are still where former numbers of lanes have placed them; `detail` lists the numbers. Set one of these numbers. Or wait until such jobs are done, no longer kept, or cancelled, and requests with an `Idempotency-Key` are forgotten, after up to 20 minutes."
    PolicyUnreadable "policy_unreadable" 409 No "Policy unreadable":
        "The stored policy of the queue is damaged; the defaults apply. Replace it with `PUT`."
    RelayUnreadable "relay_unreadable" 409 No "Relay unreadable":
        "The stored relay is damaged, or of a later release. Replace it with `PUT`, with its secrets."
    ScheduleUnreadable "schedule_unreadable" 409 No "Schedule unreadable":
        "The stored schedule is damaged, or of a later release. Replace it with `PUT`."
    VersionMismatch "version_mismatch" 412 No "Version mismatch":
        "The policy, limit, relay or schedule is not as `If-Match` or `If-None-Match` requires. Read it again and repeat the change with its new `ETag`."
    PayloadTooLarge "payload_too_large" 413 No "Payload too large":
        "The payload is larger than the server allows. Store it elsewhere and publish a reference."
    BodyTooLarge "body_too_large" 413 No "Body too large":
        "The body of the request is larger than the server allows. Send fewer jobs or leases in a request."
    PayloadNotJson "payload_not_json" 415 No "Payload not JSON":
        "The content type says JSON, but the payload is not valid JSON, or has parts that some parsers refuse: more than 64 levels, half of a surrogate pair, a number beyond 1.8e308 or with more than 1000 characters. Correct it, or send it with another content type."
    UnsupportedContentType "unsupported_content_type" 415 No "Unsupported content type":
        "The route takes a JSON object. Send it with `Content-Type: application/json`."
    UnsupportedContentEncoding "unsupported_content_encoding" 415 No "Unsupported content encoding":
        "The header `Content-Encoding` says that the body is compressed. Send it uncompressed, without this header."
    IdempotencyKeyReused "idempotency_key_reused" 422 No "Idempotency key reused":
        "The `Idempotency-Key` was used for a publish with another payload or other options. Use a new one."
    RateLimited "rate_limited" 429 No "Rate limited":
        "The rate limit of the lmstfy token is reached, or the limit `publishes_per_second` of the namespace; `detail` has its name. Repeat the request after `Retry-After`."
    QueueFull "queue_full" 429 No "Queue full":
        "The queue has `max_jobs` jobs that are not done yet. Repeat the request after `Retry-After`."
    TooManyWaiting "too_many_waiting" 429 No "Too many waiting":
        "Too many requests are waiting for jobs. Repeat the request after `Retry-After`."
    InternalError "internal_error" 500 Unknown "Internal error":
        "A defect of the server. Its log has the details under the id in `instance`."
    UnsupportedTransferEncoding "unsupported_transfer_encoding" 501 No "Unsupported transfer encoding":
        "The header `Transfer-Encoding` has another coding than `chunked`. Send the body uncompressed."
    StorageUnavailable "storage_unavailable" 503 Unknown "Storage unavailable":
        "Redis cannot be reached or refuses the operation. Repeat the request after `Retry-After`, if `applied` allows it."
    PayloadUnavailable "payload_unavailable" 503 No "Payload unavailable":
        "The payload of the job is in the cold tier, which cannot be read now. Repeat the request after `Retry-After`."
    TooManyConnections "too_many_connections" 503 No "Too many connections":
        "The server has as many connections as its settings allow, and has not read the request. Repeat it after `Retry-After`."
    NotDurable "not_durable" 504 Yes "Not durable":
        "The job is stored, but the requested durability was not confirmed in time. `job` is its id."
    TimeLimitReached "time_limit_reached" 504 Unknown "Time limit reached":
        "The server did not finish the request within its time limit."
    StorageFull "storage_full" 507 No "Storage full":
        "Redis has reached its memory limit. Acks still work; publish again when there is room."
}

impl ProblemCode {
    /// The row of this code.
    #[must_use]
    pub const fn info(self) -> &'static ProblemInfo {
        &Self::ALL[self as usize]
    }

    /// Its text, as in `code` of a problem document.
    pub const fn as_str(self) -> &'static str {
        self.info().name
    }

    /// The HTTP status.
    pub const fn status(self) -> u16 {
        self.info().status
    }

    /// The code with this text, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|info| info.name == name);
        found.map(|info| info.code)
    }

    /// Whether the answer has the header `Retry-After`: the same request may succeed soon.
    pub const fn has_retry_after(self) -> bool {
        matches!(self.status(), 429 | 503)
    }
}

impl fmt::Display for ProblemCode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_order_and_names_every_code_as_serde_does() {
        for (position, info) in ProblemCode::ALL.iter().enumerate() {
            assert_eq!(info.code as usize, position, "{}", info.name);
            let json = serde_json::to_value(info.code).unwrap();
            assert_eq!(json, info.name);
            assert_eq!(ProblemCode::from_name(info.name), Some(info.code));
            assert!(info.description.ends_with('.'), "{}: a sentence", info.name);
        }
        let statuses = ProblemCode::ALL.iter().map(|info| info.status);
        assert!(statuses.is_sorted());
        assert_eq!(ProblemCode::from_name("internal"), None);
    }

    #[test]
    fn names_and_titles_are_unique() {
        for (position, info) in ProblemCode::ALL.iter().enumerate() {
            for other in &ProblemCode::ALL[..position] {
                assert_ne!(info.name, other.name);
                assert_ne!(info.title, other.title);
            }
        }
    }

    #[test]
    fn each_code_has_its_status() {
        for (status, names) in [
            (
                400,
                "invalid_parameter invalid_body invalid_name delay_and_run_at run_at_out_of_range",
            ),
            (401, "key_missing key_invalid"),
            (403, "scope_missing namespace_forbidden"),
            (
                404,
                "job_not_found key_not_found limit_not_found relay_not_found schedule_not_found route_not_found",
            ),
            (405, "method_not_allowed"),
            (408, "request_timeout"),
            (
                409,
                "key_exists key_taken keys_in_several_lanes job_running job_dead queue_closed queue_not_empty namespace_full limit_in_use limit_unreadable lanes_unsettled policy_unreadable relay_unreadable schedule_unreadable",
            ),
            (412, "version_mismatch"),
            (413, "payload_too_large body_too_large"),
            (
                415,
                "payload_not_json unsupported_content_type unsupported_content_encoding",
            ),
            (422, "idempotency_key_reused"),
            (429, "rate_limited queue_full too_many_waiting"),
            (500, "internal_error"),
            (501, "unsupported_transfer_encoding"),
            (
                503,
                "storage_unavailable payload_unavailable too_many_connections",
            ),
            (504, "not_durable time_limit_reached"),
            (507, "storage_full"),
        ] {
            let listed = ProblemCode::ALL.iter().filter(|info| info.status == status);
            let listed: Vec<&str> = listed.map(|info| info.name).collect();
            assert_eq!(listed.join(" "), names);
        }
        assert_eq!(ProblemCode::ALL.len(), 49);
    }

    #[test]
    fn what_may_succeed_soon_has_a_retry_after() {
        assert!(ProblemCode::QueueFull.has_retry_after());
        assert!(!ProblemCode::NotDurable.has_retry_after());
        assert!(!ProblemCode::StorageFull.has_retry_after());
    }

    #[test]
    fn only_a_stored_job_counts_as_applied() {
        for info in ProblemCode::ALL {
            let expected = match info.code {
                ProblemCode::NotDurable => Applied::Yes,
                ProblemCode::InternalError
                | ProblemCode::StorageUnavailable
                | ProblemCode::TimeLimitReached => Applied::Unknown,
                _ => Applied::No,
            };
            assert_eq!(info.applied, expected, "{}", info.name);
        }
    }
}
