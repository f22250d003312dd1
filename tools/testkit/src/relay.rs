//! A relay to set.

use serde_json::json;
use tidegate_core::v1::relay::RelayConfig;

/// A relay from a queue of its namespace to this webhook.
#[must_use]
pub fn webhook_relay(url: &str) -> RelayConfig {
    let config = json!({
        "source": {"kind": "queue", "queue": "orders"},
        "sink": {"kind": "webhook", "url": url},
    });
    serde_json::from_value(config).expect("the settings of a relay")
}
