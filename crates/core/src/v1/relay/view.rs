//! How relays are shown.

use serde::{Deserialize, Serialize};

use super::config::RelayConfig;
use super::status::RelayStatus;
use crate::v1::values::RelayNameText;

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
