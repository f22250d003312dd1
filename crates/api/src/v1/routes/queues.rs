//! Operations on whole queues: their counts, their policies and lanes, purges, dead jobs that come back.

use tidegate_core::Scope;
use tidegate_core::v1::problem::ProblemCode::{
    LanesUnsettled, NamespaceFull, PolicyUnreadable, QueueNotEmpty, VersionMismatch,
};
use utoipa::openapi::HttpMethod::{Delete, Get, Patch, Post, Put};

use super::handler::{within_limit, within_share};
use super::headers::AnswerHeader;
use super::operation::{AnswerShape, BodyShape, OperationRow, json, operation};
use super::parameters::{of_list, of_policy_change};
use crate::v1::{lanes, policy, queues};

const QUEUE: &str = "/v1/{namespace}/queues/{queue}";
const POLICY: &str = "/v1/{namespace}/queues/{queue}/policy";
const LANES: &str = "/v1/{namespace}/queues/{queue}/lanes";
const PURGE: &str = "/v1/{namespace}/queues/{queue}/purge";
const RESPAWN: &str = "/v1/{namespace}/queues/{queue}/respawn";

const fn policy(description: &'static str) -> AnswerShape {
    json(200, "Policy", description).headers(&[AnswerHeader::ETag])
}

pub(super) const OPERATIONS: [OperationRow; 12] = [
    operation(
        Get,
        "/v1/{namespace}/queues",
        "list_queues",
        Scope::Read,
        within_share!(queues::list),
    )
        .about(
            "List queues",
            "Lists the queues of the namespace. A queue without jobs leaves the list within two minutes. Each page is sorted by name, the list is not. A queue may be on two pages.",
        )
        .parameters(of_list)
        .answers(&[json(200, "QueueListPage", "A page of queues.")]),
    operation(
        Get,
        QUEUE,
        "show_queue",
        Scope::Read,
        within_limit!(queues::show),
    )
        .about(
            "Show a queue",
            "The number of its jobs by state, and whether it is paused or closed. A queue that was never used has no jobs.",
        )
        .answers(&[json(200, "QueueView", "The queue.")]),
    operation(
        Delete,
        QUEUE,
        "delete_queue",
        Scope::Admin,
        within_limit!(queues::delete),
    )
        .about(
            "Delete a queue",
            "Deletes the policy of a queue without jobs. Lists leave the queue out within two minutes.",
        )
        .answers(&[json(200, "DeleteAnswer", "The queue is deleted.")])
        .problems(&[QueueNotEmpty]),
    operation(
        Get,
        POLICY,
        "show_policy",
        Scope::Read,
        within_limit!(policy::show),
    )
        .about(
            "Show the policy of a queue",
            "All fields. A field that was not set has its default.",
        )
        .answers(&[policy("The policy.")])
        .problems(&[PolicyUnreadable]),
    operation(
        Put,
        POLICY,
        "set_policy",
        Scope::Admin,
        within_limit!(policy::set),
    )
        .about(
            "Replace the policy of a queue",
            "Fields that are absent have their defaults. Effective in all servers within a second.",
        )
        .parameters(of_policy_change)
        .body(BodyShape::Json("PolicyChange"))
        .answers(&[policy("The new policy.")])
        .problems(&[NamespaceFull, VersionMismatch]),
    operation(
        Patch,
        POLICY,
        "change_policy",
        Scope::Admin,
        within_limit!(policy::patch),
    )
        .about(
            "Change the policy of a queue",
            "Fields that are absent stay as they are. Effective in all servers within a second.",
        )
        .parameters(of_policy_change)
        .body(BodyShape::Json("PolicyChange"))
        .answers(&[policy("The new policy.")])
        .problems(&[NamespaceFull, PolicyUnreadable, VersionMismatch]),
    operation(
        Get,
        "/v1/{namespace}/policies",
        "list_policies",
        Scope::Read,
        within_share!(policy::list),
    )
        .about(
            "List policies",
            "The queues with a stored policy, also queues without jobs. `*` as the namespace stands for all namespaces.",
        )
        .parameters(of_list)
        .answers(&[json(200, "PolicyListPage", "A page of policies.")]),
    operation(
        Get,
        "/v1/{namespace}/lanes",
        "list_lanes",
        Scope::Read,
        within_share!(lanes::list),
    )
        .about(
            "List queues with lanes",
            "The queues with more than one lane. `*` as the namespace stands for all namespaces.",
        )
        .parameters(of_list)
        .answers(&[json(200, "LanesListPage", "A page of queues with their lanes.")]),
    operation(
        Get,
        LANES,
        "show_lanes",
        Scope::Read,
        within_limit!(lanes::show),
    )
        .about("Show the lanes of a queue", "A queue without a setting has one lane.")
        .answers(&[json(200, "QueueLanes", "The lanes.")]),
    operation(
        Put,
        LANES,
        "set_lanes",
        Scope::Admin,
        within_limit!(lanes::set),
    )
        .about(
            "Set the lanes of a queue",
            "Lanes spread a queue over the nodes of Redis, and its jobs lose their order. Consumers empty a closed lane before it is removed.",
        )
        .body(BodyShape::Json("SetLanesBody"))
        .answers(&[json(200, "QueueLanes", "The lanes.")])
        .problems(&[LanesUnsettled]),
    operation(
        Post,
        PURGE,
        "purge",
        Scope::Admin,
        within_limit!(queues::purge),
    )
        .about(
            "Delete the jobs of a queue",
            "Deletes the jobs that are in one state when the call begins.",
        )
        .body(BodyShape::Json("PurgeBody"))
        .answers(&[json(200, "PurgeAnswer", "How many jobs were deleted.")]),
    operation(
        Post,
        RESPAWN,
        "respawn",
        Scope::Admin,
        within_limit!(queues::respawn),
    )
        .about(
            "Bring dead jobs back",
            "The oldest dead jobs of the queue are ready again, with all their attempts; with `rate_per_second` at evenly spaced times.",
        )
        .body(BodyShape::Json("Respawn"))
        .answers(&[json(200, "RespawnAnswer", "How many jobs came back.")]),
];
