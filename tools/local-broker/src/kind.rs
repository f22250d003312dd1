//! The brokers.

use std::fmt;

/// A message broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokerKind {
    /// NATS, with JetStream switched on.
    Nats,
    /// RabbitMQ, with AMQP 0-9-1.
    RabbitMq,
    /// Kafka: one node that is broker and controller.
    Kafka,
}

impl BrokerKind {
    /// The remedy if no source has the broker.
    pub(crate) const fn remedy(self) -> &'static str {
        match self {
            Self::Nats | Self::RabbitMq => {
                "run: apt-get update, then try again; it needs Debian or Ubuntu"
            }
            Self::Kafka => "it needs Java 17 or later, and Maven that reaches a repository",
        }
    }
}

impl fmt::Display for BrokerKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Nats => "NATS",
            Self::RabbitMq => "RabbitMQ",
            Self::Kafka => "Kafka",
        })
    }
}
