//! Messages from Redis: doorbells for consumers, alarms for pumps.
//!
//! A message is a hint: whoever gets one asks Redis what is true. Messages sent while the connection
//! was down are lost; after each reconnect the subscriber is told, and looks everywhere once.

use std::time::Duration;

use futures_util::StreamExt;
use redis::Msg;
use redis::aio::{PubSubSink, PubSubStream};
use tidegate_core::QueueKey;
use tidegate_core::keys::{self, BucketKeys};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

use crate::link::Moves;
use crate::{Store, StoreError};

/// A quiet connection is asked for a sign of life this often: a subscriber sends nothing by itself
/// and would wait for ever on a server that vanished.
const PING_INTERVAL: Duration = Duration::from_secs(5);
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);
/// Messages that may wait for their reader.
const MESSAGES_WAITING: usize = 4096;

/// A message to consumers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doorbell {
    /// This queue went from empty to not empty.
    Rang(QueueKey),
    /// The subscription is new: anything may have happened before.
    Resubscribed,
}

/// A message to pumps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alarm {
    /// A verb of the pump has work in this bucket, earlier than it had before.
    Earlier {
        /// The bucket.
        bucket: u16,
        /// The verb.
        verb: PumpVerb,
        /// Time until there is work, in ms, when the message was sent.
        in_ms: u64,
    },
    /// A pump joined or left.
    RosterChanged,
    /// The subscription is new: anything may have happened before.
    Resubscribed,
}

/// What a pump does in a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PumpVerb {
    /// Makes far timers near ones.
    LoadSlot,
    /// Makes due jobs ready.
    MoveDue,
    /// Deletes expired jobs.
    Sweep,
}

impl PumpVerb {
    fn from_name(name: &str) -> Option<Self> {
        match name {
            "load_slot" => Some(Self::LoadSlot),
            "move_due" => Some(Self::MoveDue),
            "sweep" => Some(Self::Sweep),
            _ => None,
        }
    }
}

/// The doorbells of all queues of a deployment, over one connection.
#[derive(Debug)]
pub struct Doorbells(mpsc::Receiver<Doorbell>);

/// The alarms of all buckets of a deployment, over one connection.
#[derive(Debug)]
pub struct Alarms(mpsc::Receiver<Alarm>);

impl Store {
    /// Listens for doorbells.
    #[must_use]
    pub fn doorbells(&self) -> Doorbells {
        let channels = self
            .all_buckets()
            .map(|bucket| BucketKeys::new(bucket).bell());
        let subscription = Subscription::new(self.clone(), channels.collect());
        Doorbells(subscription.spawn(Doorbell::Resubscribed, |message| {
            let queue = message.get_payload::<String>().ok()?;
            QueueKey::try_from(queue.as_str()).ok().map(Doorbell::Rang)
        }))
    }

    /// Listens for alarms.
    #[must_use]
    pub fn alarms(&self) -> Alarms {
        let channels = self
            .all_buckets()
            .map(|bucket| BucketKeys::new(bucket).alarm());
        let channels = channels.chain([keys::ROSTER_CHANNEL.to_owned()]);
        let subscription = Subscription::new(self.clone(), channels.collect());
        Alarms(subscription.spawn(Alarm::Resubscribed, |message| {
            let channel = message.get_channel_name();
            if channel == keys::ROSTER_CHANNEL {
                return Some(Alarm::RosterChanged);
            }
            let bucket = keys::bucket_of_channel(channel)?;
            let payload = message.get_payload::<String>().ok()?;
            let (verb, in_ms) = payload.split_once(' ')?;
            Some(Alarm::Earlier {
                bucket,
                verb: PumpVerb::from_name(verb)?,
                in_ms: in_ms.parse().ok()?,
            })
        }))
    }
}

impl Doorbells {
    /// The next message; `None` only while the runtime shuts down. Cancel safe.
    pub async fn next(&mut self) -> Option<Doorbell> {
        self.0.recv().await
    }
}

impl Alarms {
    /// The next message; `None` only while the runtime shuts down. Cancel safe.
    pub async fn next(&mut self) -> Option<Alarm> {
        self.0.recv().await
    }
}

struct Subscription {
    store: Store,
    channels: Vec<String>,
}

struct Connection {
    sink: PubSubSink,
    stream: PubSubStream,
    pings: tokio::time::Interval,
    moves: Moves,
}

impl Subscription {
    const fn new(store: Store, channels: Vec<String>) -> Self {
        Self { store, channels }
    }

    /// Keeps the subscription in a task of its own until the receiver is dropped. A reader that is
    /// slow makes Redis wait, and then close the connection: it hears `resubscribed` after that.
    fn spawn<T: Clone + Sync + Send + 'static>(
        self,
        resubscribed: T,
        read: impl Fn(&Msg) -> Option<T> + Send + 'static,
    ) -> mpsc::Receiver<T> {
        let (sender, receiver) = mpsc::channel(MESSAGES_WAITING);
        tokio::spawn(async move {
            tokio::select! {
                () = sender.closed() => {}
                () = self.forward(&sender, &resubscribed, read) => {}
            }
        });
        receiver
    }

    async fn forward<T: Clone>(
        &self,
        sender: &mpsc::Sender<T>,
        resubscribed: &T,
        read: impl Fn(&Msg) -> Option<T>,
    ) {
        loop {
            match self.subscribe().await {
                Ok(mut connection) => {
                    let _ = sender.send(resubscribed.clone()).await;
                    while let Some(message) = connection.next().await {
                        if let Some(message) = read(&message) {
                            let _ = sender.send(message).await;
                        }
                    }
                }
                Err(error) => tracing::debug!(%error, "subscription to redis failed"),
            }
            sleep(RECONNECT_PAUSE).await;
        }
    }

    async fn subscribe(&self) -> Result<Connection, StoreError> {
        let (server, moves) = self.store.inner.link.server();
        let connecting = async {
            let mut connection = server.client.get_async_pubsub().await?;
            connection.subscribe(&self.channels).await?;
            Ok(connection.split())
        };
        let (sink, stream) = self
            .store
            .answer("SUBSCRIBE", &server, connecting, &mut moves.clone())
            .await?;
        let mut pings = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Connection {
            sink,
            stream,
            pings,
            moves,
        })
    }
}

impl Connection {
    /// The next message, or `None` when the connection is of no use any more.
    async fn next(&mut self) -> Option<Msg> {
        loop {
            tokio::select! {
                message = self.stream.next() => return message,
                // Messages come from the master: another one has others.
                () = self.moves.moved() => return None,
                _ = self.pings.tick() => {
                    let ping = self.sink.ping::<redis::Value>();
                    if !matches!(timeout(PING_INTERVAL, ping).await, Ok(Ok(_))) {
                        return None;
                    }
                }
            }
        }
    }
}
