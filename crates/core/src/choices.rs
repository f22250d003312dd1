//! Choices that a publish or a cancel has. Their texts are the names of the variants, in JSON and for the scripts.

use serde::{Deserialize, Serialize};

/// The effect of a publish whose key a job has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum IfExists {
    /// Keeps that job as it is.
    #[default]
    Keep,
    /// Replaces it. A running job runs again afterwards, with the new payload and options.
    Replace,
    /// Fails with `key_taken`.
    Reject,
}

impl IfExists {
    /// Its text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Replace => "replace",
            Self::Reject => "reject",
        }
    }
}

/// The effect of a cancel on a running job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum IfRunning {
    /// Fails with `job_running`.
    #[default]
    Refuse,
    /// Asks the worker, which is notified when it extends its lease.
    Ask,
    /// Ends the lease now.
    Revoke,
}

impl IfRunning {
    /// Its text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Ask => "ask",
            Self::Revoke => "revoke",
        }
    }
}
