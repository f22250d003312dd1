//! The cold tier of a pool, for operators.

use tidegate_core::v1::cold::ColdTierView;
use tidegate_core::v1::values::Timestamp;
use tidegate_engine::Pool;

/// The cold tier of a pool; `None` if it has none.
pub(crate) async fn cold_status(pool: &Pool) -> Option<ColdTierView> {
    let status = pool.cold_status().await?;
    let listing = status.listing.unwrap_or_default();
    Some(ColdTierView {
        pool: pool.name.to_string(),
        problem: status.failure,
        frozen_payloads: listing.payloads.saturating_sub(listing.thawed_payloads),
        thawed_payloads: listing.thawed_payloads,
        segments: listing.segments,
        bytes: listing.bytes,
        counted_at: status.listing.map(|it| Timestamp::saturating(it.listed_ms)),
        back_until: status
            .thawed
            .map(|thawed| Timestamp::saturating(thawed.end_ms())),
    })
}
