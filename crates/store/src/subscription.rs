//! Messages from Redis: doorbells for consumers, alarms for pumps.
//!
//! A message is a hint: whoever gets one asks Redis what is true. Messages sent while a connection was
//! down, or while a channel moved to another server, are lost; after each new subscription the subscriber
//! is told, and looks everywhere once.
//!
//! Channels are those of sharded pub/sub: on a cluster a message stays with the servers of its slot.

mod listener;

use std::sync::Arc;

use redis::Msg;
use tidegate_core::QueueKey;
use tidegate_core::keys::{self, BucketKeys};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::Store;
use crate::link::Share;
use listener::Listener;

/// Messages that may wait for their reader.
const MESSAGES_WAITING: usize = 4096;

/// What the channel of alarms says when a pump joins or leaves.
const ROSTER: &str = "roster";

/// A message to consumers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doorbell {
    /// A lane went from empty to not empty.
    Rang {
        /// The queue.
        queue: QueueKey,
        /// The bucket of the lane.
        bucket: u16,
    },
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
    /// A pump joined or left the roster of a server.
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

/// The doorbells of all queues of a deployment, over one connection a server.
#[derive(Debug)]
pub struct Doorbells(mpsc::Receiver<Doorbell>);

/// The alarms of all buckets of a deployment, over one connection a server.
#[derive(Debug)]
pub struct Alarms(mpsc::Receiver<Alarm>);

impl Store {
    /// Listens for doorbells.
    #[must_use]
    pub fn doorbells(&self) -> Doorbells {
        let channels = self.inner.buckets.all().map(BucketKeys::bell);
        let subscription = Subscription::new(self.clone(), channels.collect());
        Doorbells(subscription.spawn(Doorbell::Resubscribed, |message| {
            let queue = message.get_payload::<String>().ok()?;
            Some(Doorbell::Rang {
                queue: QueueKey::try_from(queue.as_str()).ok()?,
                bucket: keys::bucket_of_channel(message.get_channel_name())?,
            })
        }))
    }

    /// Listens for alarms.
    #[must_use]
    pub fn alarms(&self) -> Alarms {
        let channels = self.inner.buckets.all().map(BucketKeys::alarm);
        let subscription = Subscription::new(self.clone(), channels.collect());
        Alarms(subscription.spawn(Alarm::Resubscribed, |message| {
            let bucket = keys::bucket_of_channel(message.get_channel_name())?;
            let payload = message.get_payload::<String>().ok()?;
            if payload == ROSTER {
                return Some(Alarm::RosterChanged);
            }
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

impl Subscription {
    const fn new(store: Store, channels: Vec<String>) -> Self {
        Self { store, channels }
    }

    /// Keeps the subscription in tasks of its own until the receiver is dropped. A reader that hears
    /// `resubscribed` may have missed anything before.
    fn spawn<T: Clone + Sync + Send + 'static>(
        self,
        resubscribed: T,
        read: impl Fn(&Msg) -> Option<T> + Send + Sync + 'static,
    ) -> mpsc::Receiver<T> {
        let (sender, receiver) = mpsc::channel(MESSAGES_WAITING);
        let read = Arc::new(read);
        tokio::spawn(async move {
            let listen = |share: &Share| {
                let listener = Listener::new(self.store.clone(), share.clone());
                let (sender, resubscribed) = (sender.clone(), resubscribed.clone());
                let read = Arc::clone(&read);
                tokio::spawn(async move {
                    listener.forward(&sender, &resubscribed, &*read).await;
                })
            };
            tokio::select! {
                () = sender.closed() => {}
                () = self.follow(listen) => {}
            }
        });
        receiver
    }

    /// Keeps one listener for each server that has channels. A listener whose channels stay where they
    /// are is left alone.
    async fn follow(&self, listen: impl Fn(&Share) -> tokio::task::JoinHandle<()>) {
        let mut listening: Vec<(Share, AbortOnDropHandle<()>)> = Vec::new();
        loop {
            let mut now = self.store.inner.link.shares(&self.channels);
            listening.retain(|(share, _)| now.shares.iter().any(|new| new.is_same(share)));
            for share in now.shares {
                if !listening.iter().any(|(known, _)| known.is_same(&share)) {
                    let task = AbortOnDropHandle::new(listen(&share));
                    listening.push((share, task));
                }
            }
            now.moves.moved().await;
        }
    }
}
