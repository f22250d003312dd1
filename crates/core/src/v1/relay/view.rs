//! How relays are shown.

use serde::{Deserialize, Serialize};

use super::config::RelayConfig;
use super::status::RelayStatus;
use crate::v1::values::{CursorText, RelayNameText};

/// A relay that is set through the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RelayDetails {
    /// Its name, unique in its namespace.
    pub name: RelayNameText,
    /// Changes with every `PUT`. The header `ETag` has it in quotes.
    pub revision: String,
    /// The settings, as `PUT` takes them, without secrets.
    pub config: RelayConfig,
    /// The secrets that are set, such as `sink.password`.
    pub secrets: Vec<String>,
    /// Whether it runs.
    pub status: RelayStatus,
}

/// A page of a list of relays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RelayListPage {
    /// The relays, by name.
    pub items: Vec<RelayDetails>,
    /// The cursor of the next page; `null` at the end of the list.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub next: Option<CursorText>,
}

/// The result of deleting a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeleteRelayResult {
    /// It reserves no more jobs.
    Deleted,
}

/// The answer to deleting a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeletedRelay {
    /// The result.
    pub outcome: DeleteRelayResult,
}
