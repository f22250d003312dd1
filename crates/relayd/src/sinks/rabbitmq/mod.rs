//! An exchange of RabbitMQ, with publisher confirms.

mod session;

use std::cmp::Reverse;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use lapin::options::BasicPublishOptions;
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::uri::AMQPUri;
use lapin::{BasicProperties, Channel, Confirmation, ErrorKind};
use tidegate::api::relay::RabbitMqConfig;
use tidegate::limits::AMQP_NAME_BYTES_MAX;
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};
use tokio::time::timeout;

use self::session::RabbitMqSession;
use super::{ATTRIBUTE_HEADER, ID_HEADER, RelaySink, TRACE_PARENT_HEADER, all_unavailable};
use crate::job::{DeliveryOutcome, RelayJob};

/// Stored on disk, if the queue is durable.
const PERSISTENT: u8 = 2;

/// An exchange of RabbitMQ.
pub(crate) struct RabbitMqSink {
    uri: AMQPUri,
    exchange: ShortString,
    routing_key: ShortString,
    time_limit: Duration,
    session: Mutex<Option<RabbitMqSession>>,
}

impl RabbitMqSink {
    /// Makes the sink. It connects when the first jobs are delivered.
    ///
    /// # Errors
    /// The URL is not valid. Callers have checked the settings.
    pub(crate) fn new(config: &RabbitMqConfig) -> Result<Self, String> {
        let mut uri: AMQPUri = config
            .url
            .parse()
            .map_err(|_| "url is not like amqp://host:5672".to_owned())?;
        if !config.user.is_empty() {
            uri.authority.userinfo.username.clone_from(&config.user);
            config
                .password
                .as_str()
                .clone_into(&mut uri.authority.userinfo.password);
        }
        Ok(Self {
            uri,
            exchange: config.exchange.as_str().into(),
            routing_key: config.routing_key.as_str().into(),
            time_limit: config.time_limit.into(),
            session: Mutex::new(None),
        })
    }

    /// The open session, or a new one.
    async fn session(&self) -> Result<MappedMutexGuard<'_, RabbitMqSession>, lapin::Error> {
        let mut slot = match MutexGuard::try_map(self.session.lock().await, connected) {
            Ok(session) => return Ok(session),
            Err(slot) => slot,
        };
        *slot = None;
        let opened = RabbitMqSession::open(self.uri.clone()).await?;
        Ok(MutexGuard::map(slot, |slot| slot.insert(opened)))
    }

    /// The channel that calls share, and the most bytes of a frame.
    async fn channel(&self) -> Result<(Channel, usize), lapin::Error> {
        let mut session = self.session().await?;
        Ok((session.channel().await?, session.frame_max()))
    }

    async fn own_channel(&self) -> Result<Channel, lapin::Error> {
        self.session().await?.new_channel().await
    }

    /// Publishes the jobs with these numbers, and returns the answer of the broker about each.
    async fn publish(
        &self,
        channel: &Channel,
        jobs: &[RelayJob],
        numbers: &[usize],
    ) -> Vec<ConfirmResult> {
        let mut sent = Vec::with_capacity(numbers.len());
        for number in numbers {
            let job = &jobs[*number];
            let (exchange, key) = (self.exchange.clone(), self.routing_key.clone());
            // A message that no queue takes comes back.
            let options = BasicPublishOptions {
                mandatory: true,
                ..BasicPublishOptions::default()
            };
            sent.push(
                channel
                    .basic_publish(exchange, key, options, &job.payload, properties(job))
                    .await,
            );
        }
        let confirmations = sent.into_iter().map(|sent| async {
            match sent {
                Ok(confirmation) => confirmation.await,
                Err(error) => Err(error),
            }
        });
        join_all(confirmations).await
    }

    /// Delivers jobs. Outcomes that have been reached stay if the future is dropped.
    async fn deliver_now(&self, jobs: &[RelayJob], outcomes: &mut [DeliveryOutcome]) {
        let (channel, frame_max) = match self.channel().await {
            Ok(opened) => opened,
            Err(error) => return outcomes.fill(not_connected(&error)),
        };
        let mut numbers = Vec::with_capacity(jobs.len());
        for (number, job) in jobs.iter().enumerate() {
            let bytes = header_frame_bytes(job);
            if bytes > frame_max {
                let reason = format!(
                    "too large for RabbitMQ: headers of {bytes} bytes, frame_max is {frame_max}"
                );
                outcomes[number] = DeliveryOutcome::permanent(reason);
            } else {
                numbers.push(number);
            }
        }
        let results = self.publish(&channel, jobs, &numbers).await;
        let mut left = Vec::new();
        for (number, result) in numbers.into_iter().zip(results) {
            if is_channel_closed(&result) {
                left.push(number);
            }
            outcomes[number] = outcome(result);
        }
        self.deliver_apart(jobs, left, outcomes).await;
    }

    /// Delivers jobs after the broker has closed their channel, probably since one of the messages on it is too large.
    /// It does not say which.
    ///
    /// They get a channel of their own, the largest first. If the broker closes this one, too, the largest is the
    /// cause, and the broker has not seen the others.
    async fn deliver_apart(
        &self,
        jobs: &[RelayJob],
        mut left: Vec<usize>,
        outcomes: &mut [DeliveryOutcome],
    ) {
        left.sort_by_key(|number| Reverse(jobs[*number].payload.len()));
        while !left.is_empty() {
            let channel = match self.own_channel().await {
                Ok(channel) => channel,
                Err(error) => {
                    for number in left {
                        outcomes[number] = not_connected(&error);
                    }
                    return;
                }
            };
            let results = self.publish(&channel, jobs, &left).await;
            let too_large = results.iter().find_map(too_large);
            for (number, result) in left.iter().zip(results) {
                outcomes[*number] = outcome(result);
            }
            let Some(reason) = too_large else {
                return;
            };
            outcomes[left.remove(0)] = DeliveryOutcome::permanent(reason);
            left.retain(|number| matches!(outcomes[*number], DeliveryOutcome::Unavailable(_)));
        }
    }
}

fn connected(slot: &mut Option<RabbitMqSession>) -> Option<&mut RabbitMqSession> {
    slot.as_mut().filter(|session| session.is_connected())
}

/// The answer of the broker to a message.
type ConfirmResult = Result<Confirmation, lapin::Error>;

fn not_connected(error: &lapin::Error) -> DeliveryOutcome {
    DeliveryOutcome::Unavailable(format!("failed to connect: {error}"))
}

/// Whether the broker has closed the channel, perhaps because of another message.
fn is_channel_closed(result: &ConfirmResult) -> bool {
    result.as_ref().is_err_and(|error| {
        error.is_amqp_soft_error() || matches!(error.kind(), ErrorKind::InvalidChannelState(..))
    })
}

/// The text of the broker if it has closed the channel because a message is too large.
fn too_large(result: &ConfirmResult) -> Option<String> {
    let Err(error) = result else { return None };
    let ErrorKind::ProtocolError(protocol) = error.kind() else {
        return None;
    };
    let is_precondition = matches!(
        protocol.kind(),
        AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED)
    );
    // The code has other causes, too.
    (is_precondition && protocol.get_message().as_str().contains("message size"))
        .then(|| protocol.get_message().to_string())
}

/// The bytes of the frame with the properties of a message, which the broker does not take in several frames.
fn header_frame_bytes(job: &RelayJob) -> usize {
    // Of the frame; class, weight, body size and flags; the length of the table; the delivery mode.
    let fixed = 8 + 14 + 4 + 1;
    // Each has a byte with the length of its name, a byte with its type, and four bytes with the length of its value.
    let header = |name: usize, value: usize| 1 + name + 1 + 4 + value;
    let attributes = job.attributes.iter();
    let attributes = attributes.map(|(name, value)| (ATTRIBUTE_HEADER.len() + name.len(), value));
    let attributes = attributes.filter(|(name, _)| *name <= AMQP_NAME_BYTES_MAX);
    let attributes: usize = attributes.map(|(name, it)| header(name, it.len())).sum();
    let id = header(ID_HEADER.len(), job.id.len()) + 1 + job.id.len();
    let span = job.trace_parent();
    let span = span.map_or(0, |span| header(TRACE_PARENT_HEADER.len(), span.len()));
    fixed + id + span + attributes + 1 + job.content_type.len()
}

fn properties(job: &RelayJob) -> BasicProperties {
    let mut headers = FieldTable::default();
    let mut add = |name: String, value: &str| {
        if name.len() <= AMQP_NAME_BYTES_MAX {
            headers.insert(name.into(), AMQPValue::LongString(value.into()));
        }
    };
    add(ID_HEADER.to_owned(), &job.id);
    if let Some(span) = job.trace_parent() {
        add(TRACE_PARENT_HEADER.to_owned(), &span);
    }
    for (name, value) in &job.attributes {
        add(format!("{ATTRIBUTE_HEADER}{name}"), value);
    }
    let properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_headers(headers);
    let properties = properties.with_message_id(job.id.as_str().into());
    match job.content_type.len() <= AMQP_NAME_BYTES_MAX {
        true => properties.with_content_type(job.content_type.as_str().into()),
        false => properties,
    }
}

/// A message that is returned or refused is not the fault of the job: a queue is missing or full.
fn outcome(confirmation: Result<Confirmation, lapin::Error>) -> DeliveryOutcome {
    match confirmation {
        Ok(Confirmation::Ack(None)) => DeliveryOutcome::Confirmed,
        Ok(Confirmation::Ack(Some(returned))) => {
            let reason = format!(
                "no queue takes the message: {} {}",
                returned.reply_code, returned.reply_text
            );
            DeliveryOutcome::Unavailable(reason)
        }
        Ok(Confirmation::Nack(_)) => {
            DeliveryOutcome::Unavailable("refused: the queue is probably full".to_owned())
        }
        Ok(Confirmation::NotRequested) => {
            DeliveryOutcome::Unavailable("no confirmation".to_owned())
        }
        Err(error) => DeliveryOutcome::Unavailable(error.to_string()),
    }
}

impl RelaySink for RabbitMqSink {
    fn deliver<'a>(&'a self, jobs: &'a [RelayJob]) -> BoxFuture<'a, Vec<DeliveryOutcome>> {
        Box::pin(async {
            let reason = format!("not confirmed within {:?}", self.time_limit);
            let mut outcomes = all_unavailable(jobs, &reason);
            let delivering = self.deliver_now(jobs, &mut outcomes);
            if timeout(self.time_limit, delivering).await.is_err() {
                // The broker may block this connection, or be silent: the next call opens a new one.
                let session = self.session.try_lock().ok();
                if let Some(session) = session.and_then(|mut session| session.take()) {
                    session.abandon();
                }
            }
            outcomes
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_span_is_a_header_and_counts() {
        let untraced = header_frame_bytes(&RelayJob::of_test("id"));
        for (job, header) in RelayJob::of_test_with_traces() {
            // The lengths of the name and of the value, and the type.
            let bytes = |value: &String| 1 + TRACE_PARENT_HEADER.len() + 1 + 4 + value.len();
            let grown = header.as_ref().map_or(0, bytes);
            assert_eq!(header_frame_bytes(&job), untraced + grown);
            let headers = properties(&job).headers().clone().unwrap();
            let sent = headers.inner().get(TRACE_PARENT_HEADER).cloned();
            let expected = header.map(|header| AMQPValue::LongString(header.into()));
            assert_eq!(sent, expected);
        }
    }
}
