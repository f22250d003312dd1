//! Connections to the leaders of the partitions of a topic.

use std::future::Future;
use std::time::Duration;

use rskafka::BackoffError;
use rskafka::client::Client;
use rskafka::client::error::{Error, ProtocolError};
use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::record::Record;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

use super::settings::KafkaTarget;

/// How long a session lasts: a new one sees partitions that were added. As `metadata.max.age.ms` of Kafka's clients.
const LIFETIME: Duration = Duration::from_secs(300);

/// Why messages are not stored.
#[derive(Debug)]
pub(super) enum ProduceError {
    /// They are too large for the topic.
    TooLarge(String),
    /// The topic does not take one of them.
    Invalid(String),
    /// All else: the cause is not in the messages.
    Unavailable(String),
}

/// A client, and its knowledge of the topic. After an error another one takes its place.
pub(super) struct KafkaSession {
    client: Client,
    topic: String,
    opened: Instant,
    /// Each connects when its first message is sent.
    partitions: Vec<OnceCell<PartitionClient>>,
}

impl KafkaSession {
    /// Connects to one of the brokers, and asks it for the partitions of the topic.
    ///
    /// # Errors
    /// No broker answers, or the topic does not exist.
    pub(super) async fn open(target: &KafkaTarget) -> Result<Self, String> {
        let client = quiet(target.builder().build()).await;
        let client = client.map_err(|error| format!("failed to connect: {}", text(&error)))?;
        let topics = quiet(client.list_topics()).await;
        let topics = topics.map_err(|error| format!("failed to list topics: {}", text(&error)))?;
        let topic = topics.into_iter().find(|topic| topic.name == target.topic);
        let count = topic.map_or(0, |topic| topic.partitions.len());
        if count == 0 {
            return Err(format!(
                "there is no topic {:?}, or the user may not see it",
                target.topic
            ));
        }
        Ok(Self {
            client,
            topic: target.topic.clone(),
            opened: Instant::now(),
            partitions: (0..count).map(|_| OnceCell::new()).collect(),
        })
    }

    pub(super) fn is_recent(&self) -> bool {
        self.opened.elapsed() < LIFETIME
    }

    /// How many partitions the topic has: at least one.
    pub(super) fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// Stores messages in a partition: all of them, or none. Returns when all replicas that are in sync have them.
    ///
    /// # Errors
    /// None of them is stored, unless the connection broke: then they may be.
    pub(super) async fn produce(
        &self,
        partition: usize,
        records: Vec<Record>,
    ) -> Result<(), ProduceError> {
        let connect = || {
            let number = i32::try_from(partition).unwrap_or(i32::MAX);
            let topic = self.topic.as_str();
            self.client
                .partition_client(topic, number, UnknownTopicHandling::Error)
        };
        let produced = quiet(async {
            let leader = self.partitions[partition].get_or_try_init(connect).await?;
            leader.produce(records, Compression::NoCompression).await
        });
        produced.await.map(drop).map_err(|error| classify(&error))
    }
}

/// The library logs each connection, and errors that are no failure here. Its return values say all of it.
fn quiet<F: Future>(future: F) -> impl Future<Output = F::Output> {
    future.with_subscriber(NoSubscriber::default())
}

/// The error that made the library give up.
fn cause(error: &Error) -> &Error {
    match error {
        Error::RetryFailed(BackoffError::DeadlineExceded { source, .. }) => {
            source.downcast_ref().unwrap_or(error)
        }
        _ => error,
    }
}

/// Its texts begin with the operation, several times.
fn text(error: &Error) -> String {
    match cause(error) {
        Error::ServerError { protocol_error, .. } => format!("the broker says {protocol_error:?}"),
        other => other.to_string(),
    }
}

fn classify(error: &Error) -> ProduceError {
    let reason = text(error);
    match cause(error) {
        Error::ServerError { protocol_error, .. } => match protocol_error {
            ProtocolError::MessageTooLarge | ProtocolError::RecordListTooLarge => {
                ProduceError::TooLarge(format!("too large for the topic: {reason}"))
            }
            // Such as a message without a key for a compacted topic.
            ProtocolError::InvalidRecord => ProduceError::Invalid(reason),
            // Among others: no leader, too few replicas in sync, no permission.
            _ => ProduceError::Unavailable(reason),
        },
        _ => ProduceError::Unavailable(reason),
    }
}
