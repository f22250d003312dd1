//! Operations on whole namespaces.

use tidegate_core::Scope;
use utoipa::openapi::HttpMethod::Get;

use super::handler::within_share;
use super::operation::{OperationRow, json, operation};
use crate::v1::namespace;

pub(super) const OPERATIONS: [OperationRow; 1] = [operation(
    Get,
    "/v1/{namespace}",
    "show_namespace",
    Scope::Read,
    within_share!(namespace::show),
)
.about(
    "Show a namespace",
    "Its limits, and how much of them it uses. Operators set them on the admin port.",
)
.answers(&[json(200, "NamespaceDetails", "The namespace.")])];
