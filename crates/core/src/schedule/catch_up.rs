//! Which ticks are published if their time has passed.

use serde::{Deserialize, Serialize};

/// Which ticks are published that were missed while no pump was running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    /// The last one, unless a later tick is published.
    #[default]
    One,
    /// None: a tick is published up to 10 s late.
    None,
    /// All, in their order.
    All,
}

/// Which missed ticks are published, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CatchUpRule {
    pub which: CatchUp,
    /// No tick is published so long after its time, in ms; `None` = no limit.
    pub window_ms: Option<u64>,
}
