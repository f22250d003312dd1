//! Operations on limits that queues share.

use tidegate_core::Scope;
use tidegate_core::v1::problem::ProblemCode::{
    LimitInUse, LimitNotFound, LimitUnreadable, NamespaceFull, VersionMismatch,
};
use utoipa::openapi::HttpMethod::{Delete, Get, Put};

use super::handler::{within_limit, within_share};
use super::headers::AnswerHeader;
use super::operation::{AnswerShape, BodyShape, OperationRow, json, operation};
use super::parameters::{of_limit_change, of_list};
use crate::v1::limits;

const LIMITS: &str = "/v1/{namespace}/limits";
const LIMIT: &str = "/v1/{namespace}/limits/{limit}";

const fn limit(status: u16, description: &'static str) -> AnswerShape {
    json(status, "LimitDetails", description).headers(&[AnswerHeader::ETag])
}

pub(super) const OPERATIONS: [OperationRow; 4] = [
    operation(
        Get,
        LIMITS,
        "list_limits",
        Scope::Read,
        within_share!(limits::list),
    )
        .about(
            "List limits",
            "The limits of the namespace by name. Limits that cannot be read are left out.",
        )
        .parameters(of_list)
        .answers(&[json(200, "LimitListPage", "A page of limits.")]),
    operation(
        Get,
        LIMIT,
        "show_limit",
        Scope::Read,
        within_limit!(limits::show),
    )
        .about("Show a limit", "Its rate.")
        .answers(&[limit(200, "The limit.")])
        .problems(&[LimitNotFound, LimitUnreadable]),
    operation(
        Put,
        LIMIT,
        "set_limit",
        Scope::Admin,
        within_limit!(limits::set),
    )
        .about(
            "Create or replace a limit",
            "Queues whose policies name it deliver up to `jobs` jobs in the time `per`, together. Effective in all servers within a second.",
        )
        .parameters(of_limit_change)
        .body(BodyShape::Json("RateChange"))
        .answers(&[
            limit(200, "The limit, replaced."),
            limit(201, "The limit, created."),
        ])
        .problems(&[NamespaceFull, VersionMismatch]),
    operation(
        Delete,
        LIMIT,
        "delete_limit",
        Scope::Admin,
        within_limit!(limits::delete),
    )
        .about(
            "Delete a limit",
            "Refused while the policy of a queue names it.",
        )
        .parameters(of_limit_change)
        .answers(&[json(200, "DeleteAnswer", "The limit is deleted.")])
        .problems(&[LimitInUse, LimitNotFound, VersionMismatch]),
];
