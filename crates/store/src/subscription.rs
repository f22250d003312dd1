//! Messages from Redis: doorbells for consumers, alarms for pumps.
//!
//! A message is a hint: its receiver reads the current state from Redis. Messages sent while a connection was down, or
//! while a channel moved to another server, are lost. So the subscriber is notified after each new subscription, and
//! checks all queues or buckets once.
//!
//! Messages use sharded pub/sub: on a cluster a message is sent to the servers of its slot only.

mod listener;

use std::collections::BTreeSet;
use std::sync::Arc;

use redis::Msg;
use tidegate_core::QueueKey;
use tidegate_core::keys::{self, BucketKeys};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;

use crate::link::{ChannelGroup, Link};
use crate::store::Store;
use listener::ChannelListener;

/// Capacity of the channel to the reader, in messages.
const MESSAGES_WAITING: usize = 4096;

/// The message in the channel of alarms when a pump joins or leaves a roster.
const ROSTER: &str = "roster";
/// How the message begins that names the pump whose lock was taken.
const LOCK: &str = "lock ";

/// A message to consumers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doorbell {
    /// A lane for which this process was registered has jobs. It is not registered any more.
    Rang {
        queue: QueueKey,
        /// The bucket of the lane.
        bucket: u16,
    },
    /// A job that a client waits for has ended.
    Ended { bucket: u16, number: u64 },
    /// The subscription to these buckets is new: earlier messages may be lost.
    Resubscribed {
        /// The buckets of one server.
        buckets: BTreeSet<u16>,
    },
}

/// A message to pumps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alarm {
    /// A verb of the pump has work in this bucket earlier than before.
    Earlier {
        bucket: u16,
        verb: PumpVerb,
        /// Time until there is work, in ms, from when the message was sent.
        in_ms: u64,
        /// When it was sent, in ms since 1970 on the clock of its server. It may be read much later: this process was
        /// paused, or the network.
        sent_at_ms: u64,
    },
    /// A pump joined or left the roster of a server.
    RosterChanged,
    /// A pump took the lock of a bucket from another one, which was not on the roster that it knew.
    LockTaken {
        bucket: u16,
        /// The name of the pump that held the lock.
        from: String,
    },
    /// The subscription is new: earlier messages may be lost.
    Resubscribed,
}

/// A call that a pump makes for a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PumpVerb {
    /// Moves far timers to near.
    LoadSlot,
    /// Makes due jobs ready.
    MoveDue,
    /// Deletes expired jobs.
    Sweep,
    /// Publishes the jobs of schedules.
    Schedules,
}

impl PumpVerb {
    fn from_name(name: &str) -> Option<Self> {
        match name {
            "load_slot" => Some(Self::LoadSlot),
            "move_due" => Some(Self::MoveDue),
            "sweep" => Some(Self::Sweep),
            "schedule_due" => Some(Self::Schedules),
            _ => None,
        }
    }
}

/// The messages to all buckets of a deployment, over one connection per server.
#[derive(Debug)]
pub struct Messages<T>(mpsc::Receiver<T>);

impl Store {
    /// Subscribes to the doorbells of this process and to the ends of jobs, in all buckets.
    pub fn doorbells(&self) -> Messages<Doorbell> {
        let waiter = self.inner.waiter.as_str();
        let channels = self.inner.buckets.all();
        let channels = channels.flat_map(|keys| [keys.bell(), keys.bell_of(waiter)]);
        let resubscribed = |channels: &[String]| {
            let buckets = channels.iter();
            let buckets = buckets.filter_map(|channel| keys::bucket_of_channel(channel));
            Doorbell::Resubscribed {
                buckets: buckets.collect(),
            }
        };
        self.subscribe(channels.collect(), resubscribed, |message| {
            let text = message.get_payload::<String>().ok()?;
            let bucket = keys::bucket_of_channel(message.get_channel_name())?;
            if let Some(number) = text.strip_prefix('#') {
                let number = number.parse().ok()?;
                return Some(Doorbell::Ended { bucket, number });
            }
            let queue = QueueKey::try_from(text.as_str()).ok()?;
            Some(Doorbell::Rang { queue, bucket })
        })
    }

    /// Subscribes to the alarms of all buckets.
    pub fn alarms(&self) -> Messages<Alarm> {
        let channels = self.inner.buckets.all().map(BucketKeys::alarm);
        self.subscribe(
            channels.collect(),
            |_| Alarm::Resubscribed,
            |message| {
                let bucket = keys::bucket_of_channel(message.get_channel_name())?;
                let payload = message.get_payload::<String>().ok()?;
                if payload == ROSTER {
                    return Some(Alarm::RosterChanged);
                }
                if let Some(from) = payload.strip_prefix(LOCK) {
                    let from = from.to_owned();
                    return Some(Alarm::LockTaken { bucket, from });
                }
                let mut parts = payload.split(' ');
                Some(Alarm::Earlier {
                    bucket,
                    verb: PumpVerb::from_name(parts.next()?)?,
                    in_ms: parts.next()?.parse().ok()?,
                    sent_at_ms: parts.next()?.parse().ok()?,
                })
            },
        )
    }

    /// Subscribes in separate tasks until the receiver is dropped. After each new subscription the receiver gets the
    /// message that `resubscribed` makes of its channels: earlier messages may be lost.
    fn subscribe<T: Send + 'static>(
        &self,
        channels: Vec<String>,
        resubscribed: impl Fn(&[String]) -> T + Send + Sync + 'static,
        read: impl Fn(&Msg) -> Option<T> + Send + Sync + 'static,
    ) -> Messages<T> {
        let (sender, receiver) = mpsc::channel(MESSAGES_WAITING);
        let (store, functions) = (self.clone(), Arc::new((resubscribed, read)));
        tokio::spawn(async move {
            let listen = |share: &ChannelGroup| {
                let listener = ChannelListener::new(store.clone(), share.clone());
                let (sender, functions) = (sender.clone(), Arc::clone(&functions));
                tokio::spawn(async move {
                    let (resubscribed, read) = &*functions;
                    listener.forward(&sender, resubscribed, read).await;
                })
            };
            tokio::select! {
                () = sender.closed() => {}
                () = follow(&store.inner.link, &channels, listen) => {}
            }
        });
        Messages(receiver)
    }
}

impl<T> Messages<T> {
    /// The next message; `None` only while the runtime shuts down. Cancel safe.
    pub async fn next(&mut self) -> Option<T> {
        self.0.recv().await
    }
}

/// Keeps one listener for each server that has channels. A listener is restarted only if its channels change.
async fn follow(
    link: &Link,
    channels: &[String],
    listen: impl Fn(&ChannelGroup) -> JoinHandle<()>,
) {
    let mut listening: Vec<(ChannelGroup, AbortOnDropHandle<()>)> = Vec::new();
    loop {
        let mut now = link.channel_groups(channels);
        listening.retain(|(share, _)| now.shares.iter().any(|new| new.is_same(share)));
        for share in now.shares {
            if !listening.iter().any(|(known, _)| known.is_same(&share)) {
                let task = AbortOnDropHandle::new(listen(&share));
                listening.push((share, task));
            }
        }
        now.moves.changed().await;
    }
}
