//! Operations on relays.

use tidegate_core::Scope;
use tidegate_core::v1::problem::ProblemCode::{
    NamespaceFull, RelayNotFound, RelayUnreadable, VersionMismatch,
};
use utoipa::openapi::HttpMethod::{Delete, Get, Put};

use super::handler::{within_limit, within_share};
use super::headers::AnswerHeader;
use super::operation::{AnswerShape, BodyShape, OperationRow, json, operation};
use super::parameters::{of_list, of_relay_change};
use crate::v1::relays;

const RELAYS: &str = "/v1/{namespace}/relays";
const RELAY: &str = "/v1/{namespace}/relays/{relay}";

const fn relay(status: u16, description: &'static str) -> AnswerShape {
    json(status, "RelayDetails", description).headers(&[AnswerHeader::ETag])
}

pub(super) const OPERATIONS: [OperationRow; 4] = [
    operation(
        Get,
        RELAYS,
        "list_relays",
        Scope::Read,
        within_share!(relays::list),
    )
        .about(
            "List relays",
            "The relays of the namespace by name, without their secrets. Relays that cannot be read are left out.",
        )
        .parameters(of_list)
        .answers(&[json(200, "RelayListPage", "A page of relays.")]),
    operation(
        Get,
        RELAY,
        "show_relay",
        Scope::Read,
        within_limit!(relays::show),
    )
        .about("Show a relay", "Its settings without its secrets, the names of the secrets that are set, and whether it runs.")
        .answers(&[relay(200, "The relay.")])
        .problems(&[RelayNotFound, RelayUnreadable]),
    operation(
        Put,
        RELAY,
        "set_relay",
        Scope::Admin,
        within_limit!(relays::set),
    )
        .about(
            "Create or replace a relay",
            "Fields that are absent have their defaults; secrets that are absent stay, if the kind and the URL of their end stay.",
        )
        .parameters(of_relay_change)
        .body(BodyShape::Json("RelayConfig"))
        .answers(&[relay(200, "The relay, replaced."), relay(201, "The relay, created.")])
        .problems(&[NamespaceFull, VersionMismatch]),
    operation(
        Delete,
        RELAY,
        "delete_relay",
        Scope::Admin,
        within_limit!(relays::delete),
    )
        .about(
            "Delete a relay",
            "It reserves no more jobs. Its queue and the jobs in it stay.",
        )
        .parameters(of_relay_change)
        .answers(&[json(200, "DeleteAnswer", "The relay is deleted.")])
        .problems(&[RelayNotFound, VersionMismatch]),
];
