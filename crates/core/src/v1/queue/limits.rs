//! Limits that queues of a namespace share.

use serde::{Deserialize, Serialize};

use crate::Rate;
use crate::v1::values::LimitNameText;

/// A limit that all queues share whose policies name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LimitDetails {
    /// Its name, unique in its namespace.
    pub name: LimitNameText,
    /// Changes with every `PUT`. The header `ETag` has it in quotes.
    pub revision: String,
    /// How many jobs of these queues are delivered in a time, together.
    pub rate: Rate,
}
