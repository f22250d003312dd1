//! Operations on API keys.

use tidegate_core::Scope;
use tidegate_core::v1::problem::ProblemCode::{KeyExists, KeyNotFound, NamespaceFull};
use utoipa::openapi::HttpMethod::{Delete, Get, Post};

use super::handler::{within_limit, within_share};
use super::operation::{BodyShape, OperationRow, json, operation};
use super::parameters::of_list;
use crate::v1::keys;

const KEYS: &str = "/v1/{namespace}/keys";

pub(super) const OPERATIONS: [OperationRow; 3] = [
    operation(
        Get,
        KEYS,
        "list_keys",
        Scope::Admin,
        within_share!(keys::list),
    )
        .about("List API keys", "The keys of the namespace, in no order; with `*` as the namespace the keys of all namespaces.")
        .parameters(of_list)
        .answers(&[json(200, "KeyPage", "A page of keys, without their secrets.")]),
    operation(
        Post,
        KEYS,
        "create_key",
        Scope::Admin,
        within_limit!(keys::create),
    )
        .about("Create an API key", "The new key cannot allow more than the key of the request, nor expire later. An operator creates the first keys at the admin port.")
        .body(BodyShape::Json("CreateKeyBody"))
        .answers(&[json(201, "CreatedKey", "The key. This is the only answer with its secret.")])
        .problems(&[KeyExists, NamespaceFull]),
    operation(
        Delete,
        "/v1/{namespace}/keys/{key}",
        "revoke_key",
        Scope::Admin,
        within_limit!(keys::revoke),
    )
        .about("Revoke an API key", "Servers reject the key within a second, and end the requests that wait with it.")
        .answers(&[json(200, "RevokedKey", "The key is deleted.")])
        .problems(&[KeyNotFound]),
];
