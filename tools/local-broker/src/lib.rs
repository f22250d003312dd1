//! Obtains and runs private message brokers for development and tests: NATS with JetStream, RabbitMQ, and
//! Kafka.
//!
//! * [`obtain()`] finds a `nats-server` on this machine, or downloads a broker into a cache folder. It installs
//!   nothing, touches no system service, and needs no permission beyond writing to that folder. Kafka needs a Java and
//!   Maven.
//! * [`LocalBroker`] runs one on 127.0.0.1 with a private data folder, and can stop, kill, pause and restart it.
//!
//! All functions block. Nothing is printed: progress goes to a callback, and [`LocalBrokerError`] has the reasons of
//! failures. If this process dies, the broker is ended.

mod broker;
mod error;
mod kafka;
mod kafka_wire;
mod kind;
mod nats;
mod obtain;
mod ports;
mod rabbitmq;
mod tls;

pub use broker::LocalBroker;
pub use error::LocalBrokerError;
pub use kind::BrokerKind;
pub use obtain::{BrokerProgram, obtain, workspace_cache};
pub use tls::BrokerCertificate;
