//! A subject of NATS that a JetStream stream stores.

use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::context::{Context, PublishError, PublishErrorKind};
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{Client, ConnectOptions, HeaderMap, ServerAddr};
use futures_util::future::{BoxFuture, join_all};
use tidegate::api::relay::NatsConfig;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::{ATTRIBUTE_HEADER, ID_HEADER, RelaySink, TRACE_PARENT_HEADER, all_unavailable};
use crate::job::{DeliveryOutcome, RelayJob};

/// A stream drops a message whose id it has seen within its window of duplicates.
const MESSAGE_ID: &str = "Nats-Msg-Id";

/// How often the client connects again by itself after a connection is lost. 0 would mean without a limit.
const RECONNECTS: usize = 1;

/// A subject of NATS.
pub(crate) struct NatsSink {
    config: NatsConfig,
    servers: Vec<ServerAddr>,
    /// `None` before the first call. One that is lost is replaced by the next call.
    connection: Mutex<Option<(Client, Context)>>,
}

impl NatsSink {
    /// Makes the sink. It connects when the first jobs are delivered.
    ///
    /// # Errors
    /// The URL is not valid. Callers have checked the settings.
    pub(crate) fn new(config: &NatsConfig) -> Result<Self, String> {
        let servers = config.url.split(',').map(|url| url.trim().parse());
        let servers = servers.collect::<Result<Vec<ServerAddr>, _>>();
        let servers = servers.map_err(|_| "url is not like nats://host:4222".to_owned())?;
        Ok(Self {
            config: config.clone(),
            servers,
            connection: Mutex::new(None),
        })
    }

    /// The open connection, or a new one.
    async fn connection(&self) -> Result<Context, String> {
        let mut connection = self.connection.lock().await;
        if let Some((client, context)) = &*connection
            && client.connection_state() == State::Connected
        {
            return Ok(context.clone());
        }
        *connection = None;
        let (client, context) = self.connect().await?;
        *connection = Some((client, context.clone()));
        Ok(context)
    }

    async fn connect(&self) -> Result<(Client, Context), String> {
        let config = &self.config;
        let options = ConnectOptions::new()
            .name("tidegate-relayd")
            // The settings say which servers get the password.
            .ignore_discovered_servers()
            // It would go on without a delivery, also when this sink is no longer used.
            .max_reconnects(RECONNECTS)
            .connection_timeout(config.time_limit.into());
        let options = match (config.token.is_empty(), config.user.is_empty()) {
            (false, _) => options.token(config.token.as_str().to_owned()),
            (true, false) => {
                options.user_and_password(config.user.clone(), config.password.as_str().to_owned())
            }
            (true, true) => options,
        };
        let client = options.connect(self.servers.as_slice()).await;
        let client = client.map_err(|error| format!("failed to connect: {error}"))?;
        let mut context = jetstream::new(client.clone());
        context.set_timeout(config.time_limit.into());
        Ok((client, context))
    }

    async fn deliver_now(&self, jobs: &[RelayJob]) -> Vec<DeliveryOutcome> {
        let context = match self.connection().await {
            Ok(context) => context,
            Err(reason) => return all_unavailable(jobs, &reason),
        };
        // In order; the confirmations arrive meanwhile.
        let mut sent = Vec::with_capacity(jobs.len());
        for job in jobs {
            let subject = self.config.subject.clone();
            sent.push(
                context
                    .publish_with_headers(subject, headers(job), job.payload.clone())
                    .await,
            );
        }
        let confirmed = sent.into_iter().map(|sent| async {
            match sent {
                Ok(confirmation) => confirmation.await.map(drop),
                Err(error) => Err(error),
            }
        });
        let confirmed = join_all(confirmed)
            .await
            .into_iter()
            .map(|result| match result {
                Ok(()) => DeliveryOutcome::Confirmed,
                Err(error) => failure(&error),
            });
        confirmed.collect()
    }
}

/// A message that the server or the stream will never store is the fault of the job. All else is not: among others, no
/// stream has the subject, or the stream is full.
fn failure(error: &PublishError) -> DeliveryOutcome {
    let source = std::error::Error::source(error);
    let answer = source.and_then(|source| source.downcast_ref::<jetstream::Error>());
    let is_too_large = matches!(
        answer.map(jetstream::Error::error_code),
        Some(ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM | ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM)
    );
    if is_too_large || error.kind() == PublishErrorKind::MaxPayloadExceeded {
        return DeliveryOutcome::permanent(error.to_string());
    }
    DeliveryOutcome::Unavailable(error.to_string())
}

fn headers(job: &RelayJob) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(MESSAGE_ID, job.id.as_str());
    headers.insert(ID_HEADER, job.id.as_str());
    headers.insert("Content-Type", job.content_type.as_str());
    if let Some(span) = job.trace_parent() {
        headers.insert(TRACE_PARENT_HEADER, span);
    }
    for (name, value) in &job.attributes {
        // A header is a line of text.
        if !name.is_empty()
            && !value.contains(['\r', '\n'])
            && name
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b':')
        {
            headers.insert(format!("{ATTRIBUTE_HEADER}{name}"), value.as_str());
        }
    }
    headers
}

impl RelaySink for NatsSink {
    fn deliver<'a>(&'a self, jobs: &'a [RelayJob]) -> BoxFuture<'a, Vec<DeliveryOutcome>> {
        Box::pin(async {
            let limit = Duration::from(self.config.time_limit);
            let delivered = timeout(limit, self.deliver_now(jobs)).await;
            delivered.unwrap_or_else(|_| {
                all_unavailable(jobs, &format!("not confirmed within {limit:?}"))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_span_is_a_header() {
        for (job, header) in RelayJob::of_test_with_traces() {
            let headers = headers(&job);
            let sent = headers.get(TRACE_PARENT_HEADER).map(ToString::to_string);
            assert_eq!(sent, header);
        }
    }
}
