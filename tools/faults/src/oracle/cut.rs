//! Times at the resolution of Redis.

use crate::history::UnixMicros;

/// Truncates to ms, the resolution of Redis's times.
pub(super) const fn truncate_to_ms(moment: UnixMicros) -> UnixMicros {
    const MS: u64 = 1000;
    moment / MS * MS
}
