//! Relays, which pass the jobs of one queue on to a webhook, a broker or another queue.
//!
//! The same types are the bodies of `/v1/NAMESPACE/relays` and the tables of the settings of `tidegate-relayd`. A relay
//! is written with its secrets; answers of `/v1` have it [without them](RelayConfig::without_secrets).

mod address_guard;
mod checks;
mod config;
mod defaults;
mod field_checks;
mod kafka;
mod kept_secrets;
mod kinds;
mod secret;
mod sink;
mod source;
mod status;
mod stored;
mod summary;
mod text_list;
mod url;
mod view;

pub use address_guard::AddressGuard;
pub use checks::RELAY_BOUNDS;
pub use config::RelayConfig;
pub use kafka::{KafkaConfig, KafkaMechanism};
pub use secret::SecretText;
pub use sink::{NatsConfig, RabbitMqConfig, RelaySinkConfig, TidegateSinkConfig, WebhookConfig};
pub use source::{LmstfySourceConfig, QueueSourceConfig, RelaySourceConfig, TidegateSourceConfig};
pub use status::{LastRelayError, RelayHealth, RelayReport, RelayReports, RelayStatus};
pub use stored::{DamagedRelay, StoredRelayConfig, StoredRelays};
pub use text_list::TextList;
pub use view::{DeleteRelayResult, DeletedRelay, RelayDetails, RelayListPage};

/// The name under which a relay is listed as a worker.
pub fn worker_name(relay: &str) -> String {
    format!("relay:{relay}")
}

#[cfg(test)]
mod tests;
