//! A connection to one server, and the messages of some channels that come over it.

use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Msg, PushInfo, PushKind, RedisResult, Value};
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep, timeout};

use crate::link::{Share, bounded};
use crate::{Store, StoreError};

/// A quiet connection is asked for a sign of life this often: a subscriber sends nothing by itself
/// and would wait for ever on a server that vanished.
const PING_INTERVAL: Duration = Duration::from_secs(5);
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);

/// Listens at one server for as long as its task runs.
pub(super) struct Listener {
    store: Store,
    share: Share,
}

struct Connection {
    connection: MultiplexedConnection,
    pushes: mpsc::UnboundedReceiver<PushInfo>,
    pings: Interval,
}

impl Listener {
    pub(super) const fn new(store: Store, share: Share) -> Self {
        Self { store, share }
    }

    /// Hands on what `read` makes of each message, and `resubscribed` after each new subscription.
    pub(super) async fn forward<T: Clone>(
        &self,
        sender: &mpsc::Sender<T>,
        resubscribed: &T,
        read: &(impl Fn(&Msg) -> Option<T> + ?Sized),
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
            // The channels may have moved away.
            self.store.inner.link.look();
            sleep(RECONNECT_PAUSE).await;
        }
    }

    async fn subscribe(&self) -> Result<Connection, StoreError> {
        let config = &self.store.inner.config;
        let (began_at, server) = (std::time::Instant::now(), &self.share.server);
        let subscribing = connect_and_subscribe(&self.share, config.connect_timeout);
        let subscribed = bounded(config.command_timeout, subscribing).await;
        server
            .measures
            .called("SSUBSCRIBE", began_at, subscribed.is_ok());
        let (connection, pushes) = subscribed?;
        let mut pings = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Connection {
            connection,
            pushes,
            pings,
        })
    }
}

async fn connect_and_subscribe(
    share: &Share,
    connect_timeout: Duration,
) -> RedisResult<(MultiplexedConnection, mpsc::UnboundedReceiver<PushInfo>)> {
    let (sender, pushes) = mpsc::unbounded_channel();
    let settings = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(connect_timeout))
        .set_response_timeout(None)
        .set_push_sender(sender);
    let client = share.server.client_for_messages()?;
    let connecting = client.get_multiplexed_async_connection_with_config(&settings);
    let mut connection = connecting.await?;
    // One command for each channel: each has one answer then, and a channel that is not here fails alone.
    let mut commands = redis::pipe();
    for channel in &share.channels {
        commands.cmd("SSUBSCRIBE").arg(channel);
    }
    let answers = connection
        .req_packed_commands(&commands, 0, share.channels.len())
        .await?;
    for answer in answers {
        answer.extract_error()?;
    }
    Ok((connection, pushes))
}

impl Connection {
    /// The next message, or `None` when the connection is of no use any more.
    async fn next(&mut self) -> Option<Msg> {
        loop {
            tokio::select! {
                push = self.pushes.recv() => match Heard::of(push?) {
                    Heard::Message(message) => return Some(message),
                    Heard::Nothing => {}
                    Heard::End => return None,
                },
                _ = self.pings.tick() => {
                    let ping = redis::cmd("PING");
                    let ping = ping.query_async::<Value>(&mut self.connection);
                    if !matches!(timeout(PING_INTERVAL, ping).await, Ok(Ok(_))) {
                        return None;
                    }
                }
            }
        }
    }
}

/// What a push says.
enum Heard {
    Message(Msg),
    /// A subscription is confirmed.
    Nothing,
    /// The connection is gone, or a channel has moved to another server.
    End,
}

impl Heard {
    fn of(push: PushInfo) -> Self {
        match push.kind {
            PushKind::SMessage => Msg::from_push_info(push).map_or(Self::Nothing, Self::Message),
            PushKind::SUnsubscribe | PushKind::Disconnection => Self::End,
            _ => Self::Nothing,
        }
    }
}
