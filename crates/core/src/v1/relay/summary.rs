//! The ends of a relay in a line, for people.

use super::sink::RelaySinkConfig;
use super::source::RelaySourceConfig;

/// The host of a URL: its path and user may be secrets.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.split(['/', '?', '#', ',']).next().unwrap_or_default();
    rest.rsplit('@').next().unwrap_or_default()
}

impl RelaySourceConfig {
    /// Its kind, host and queue. It has no secret: of a URL only the host.
    pub fn summary(&self) -> String {
        match self {
            Self::Queue(queue) => format!("queue {}", queue.queue),
            Self::Tidegate(queue) => format!(
                "tidegate {} {}/{}",
                host(&queue.url),
                queue.namespace,
                queue.queue
            ),
            Self::Lmstfy(queue) => format!(
                "lmstfy {} {}/{}",
                host(&queue.url),
                queue.namespace,
                queue.queue
            ),
        }
    }
}

impl RelaySinkConfig {
    /// Its kind, host, and where the jobs go there. It has no secret: of a URL only the host.
    pub fn summary(&self) -> String {
        match self {
            Self::Webhook(webhook) => format!("webhook {}", host(&webhook.url)),
            Self::Nats(nats) => format!("nats {} {}", host(&nats.url), nats.subject),
            Self::RabbitMq(rabbit) => {
                let names = [rabbit.exchange.as_str(), rabbit.routing_key.as_str()].join(" ");
                format!("rabbitmq {} {}", host(&rabbit.url), names.trim())
            }
            Self::Kafka(kafka) => format!("kafka {} {}", host(&kafka.url), kafka.topic),
            Self::Tidegate(queue) => format!(
                "tidegate {} {}/{}",
                host(&queue.url),
                queue.namespace,
                queue.queue
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_neither_users_nor_paths() {
        for (url, expected) in [
            ("https://a.example/secret?token=x", "a.example"),
            ("amqp://user:pass@a:5672/vhost", "a:5672"),
            ("nats://u:p@a:4222,nats://b:4222", "a:4222"),
            ("a:9092,b:9092", "a:9092"),
            ("a", "a"),
        ] {
            assert_eq!(host(url), expected, "{url}");
        }
    }
}
