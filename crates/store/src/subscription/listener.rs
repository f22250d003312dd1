//! A connection to one server, and the messages of its channels.

use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Msg, PushInfo, PushKind, Value};
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep, timeout};

use crate::error::StoreError;
use crate::link::{ChannelGroup, StoreServer};
use crate::server_info::{IDENTITY, ServerInfo};
use crate::store::Store;

/// Interval of `PING` on the connection. A subscriber sends no other command, so without it a server that has vanished
/// would not be noticed.
const PING_INTERVAL: Duration = Duration::from_secs(5);
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);

/// Listens to one server until its task ends.
pub(super) struct ChannelListener {
    store: Store,
    share: ChannelGroup,
}

struct SubscriptionConnection {
    connection: MultiplexedConnection,
    pushes: mpsc::UnboundedReceiver<PushInfo>,
    pings: Interval,
}

impl ChannelListener {
    pub(super) const fn new(store: Store, share: ChannelGroup) -> Self {
        Self { store, share }
    }

    /// Sends the result of `read` for each message, and the result of `resubscribed` for the channels after each new
    /// subscription.
    pub(super) async fn forward<T>(
        &self,
        sender: &mpsc::Sender<T>,
        resubscribed: impl Fn(&[String]) -> T,
        read: impl Fn(&Msg) -> Option<T>,
    ) {
        loop {
            match self.subscribe().await {
                Ok(mut connection) => {
                    let _ = sender.send(resubscribed(&self.share.channels)).await;
                    while let Some(message) = connection.next().await {
                        if let Some(message) = read(&message) {
                            let _ = sender.send(message).await;
                        }
                    }
                }
                Err(error) => {
                    let server = &self.share.server;
                    tracing::debug!(%server, %error, "failed to subscribe; retrying in {RECONNECT_PAUSE:?}");
                }
            }
            // The channels may have moved to another server.
            self.store.inner.link.refresh();
            sleep(RECONNECT_PAUSE).await;
        }
    }

    async fn subscribe(&self) -> Result<SubscriptionConnection, StoreError> {
        let config = &self.store.inner.config;
        let (began_at, server) = (std::time::Instant::now(), &self.share.server);
        let subscribing = connect_and_subscribe(&self.share, config.connect_timeout);
        let subscribed = timeout(config.command_timeout, subscribing).await;
        let subscribed =
            subscribed.unwrap_or_else(|_| Err(StoreError::timed_out(config.command_timeout)));
        server
            .measures
            .record_call("SSUBSCRIBE", began_at, subscribed.is_ok());
        let (connection, pushes) = subscribed?;
        let mut pings = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(SubscriptionConnection {
            connection,
            pushes,
            pings,
        })
    }
}

async fn connect_and_subscribe(
    share: &ChannelGroup,
    connect_timeout: Duration,
) -> Result<(MultiplexedConnection, mpsc::UnboundedReceiver<PushInfo>), StoreError> {
    #[expect(
        clippy::disallowed_methods,
        reason = "required by the client; emptied at once"
    )]
    let (sender, pushes) = mpsc::unbounded_channel();
    let settings = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(connect_timeout))
        .set_response_timeout(None)
        .set_push_sender(sender);
    let client = share.server.client_for_messages()?;
    let connecting = client.get_multiplexed_async_connection_with_config(&settings);
    let mut connection = connecting.await?;
    check_server(&share.server, &mut connection).await?;
    // One command for each channel: each has its own reply, and only channels that have moved fail.
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

/// Checks that the connection leads to the known server, and that it is a master: on another one, messages may be
/// missing.
async fn check_server(
    server: &StoreServer,
    connection: &mut MultiplexedConnection,
) -> Result<(), StoreError> {
    if !server.is_identified() {
        return Ok(());
    }
    let mut command = redis::cmd("INFO");
    let info: String = command.arg(&IDENTITY).query_async(connection).await?;
    let info = ServerInfo::parse(&info);
    info.check_master()?;
    if server.has_run_id(info.run_id()) {
        return Ok(());
    }
    server.mark_misled();
    Err(StoreError::not_ready(
        "the subscription reached another server than the calls",
    ))
}

impl SubscriptionConnection {
    /// The next message; `None` if the connection can no longer be used.
    async fn next(&mut self) -> Option<Msg> {
        loop {
            tokio::select! {
                push = self.pushes.recv() => match PushEvent::of(push?) {
                    PushEvent::Message(message) => return Some(message),
                    PushEvent::Nothing => {}
                    PushEvent::End => return None,
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

/// The content of a push message.
enum PushEvent {
    Message(Msg),
    /// A subscription is confirmed.
    Nothing,
    /// The connection is closed, or a channel has moved to another server.
    End,
}

impl PushEvent {
    fn of(push: PushInfo) -> Self {
        match push.kind {
            PushKind::SMessage => Msg::from_push_info(push).map_or(Self::Nothing, Self::Message),
            PushKind::SUnsubscribe | PushKind::Disconnection => Self::End,
            _ => Self::Nothing,
        }
    }
}
