//! A connection to RabbitMQ that can be given up while the broker is silent.

use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;

use lapin::options::ConfirmSelectOptions;
use lapin::tcp::TLSConfig;
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{AsyncTcpStream, Channel, Connection, ConnectionProperties, runtime};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// An open connection, and the channel that the calls share.
pub(super) struct RabbitMqSession {
    connection: Connection,
    channel: Channel,
    socket: Arc<SocketShutdown>,
}

/// Ends the thread that the library has for each connection: dropping the future of a connect does not, and the library
/// waits without a limit for a broker that accepts connections and is silent.
#[derive(Debug, Default)]
struct SocketShutdown {
    is_abandoned: CancellationToken,
    /// Another handle of the socket of the connection.
    socket: Mutex<Option<TcpStream>>,
}

impl SocketShutdown {
    fn keep(&self, socket: TcpStream) {
        *self.socket.lock() = Some(socket);
        // It may have been abandoned meanwhile.
        if self.is_abandoned.is_cancelled() {
            self.shut_down();
        }
    }

    fn shut_down(&self) {
        self.is_abandoned.cancel();
        if let Some(socket) = self.socket.lock().take() {
            // Fails if it is closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// Shuts the socket down unless the connection has been opened.
struct OpeningGuard(Option<Arc<SocketShutdown>>);

impl Drop for OpeningGuard {
    fn drop(&mut self) {
        if let Some(socket) = self.0.take() {
            socket.shut_down();
        }
    }
}

impl RabbitMqSession {
    /// Connects. If the future is dropped before it is ready, nothing is left of the connection.
    pub(super) async fn open(uri: AMQPUri) -> Result<Self, lapin::Error> {
        let socket = Arc::new(SocketShutdown::default());
        let mut guard = OpeningGuard(Some(Arc::clone(&socket)));
        let kept = Arc::clone(&socket);
        let properties =
            ConnectionProperties::default().with_connection_name("tidegate-relayd".into());
        let runtime = runtime::default_runtime()?;
        let opening = Connection::connector(
            uri,
            runtime,
            async move |uri: AMQPUri, runtime| {
                let connecting = async {
                    let host = uri.authority.host.clone();
                    let resolved = resolve((host.clone(), uri.authority.port)).await?;
                    let stream = AsyncTcpStream::connect(&runtime, resolved).await?;
                    if let AsyncTcpStream::Plain(plain) = &stream {
                        let handle = plain.get_ref().as_fd().try_clone_to_owned()?;
                        kept.keep(handle.into());
                    }
                    match uri.scheme {
                        AMQPScheme::AMQP => Ok(stream),
                        AMQPScheme::AMQPS => stream.into_tls(&host, TLSConfig::default()).await,
                    }
                };
                let connected = kept.is_abandoned.run_until_cancelled(connecting).await;
                let abandoned = || Err(std::io::ErrorKind::TimedOut.into());
                connected
                    .unwrap_or_else(abandoned)
                    .map_err(lapin::Error::from)
            },
            properties,
        );
        let connection = opening.await?;
        let channel = confirming_channel(&connection).await?;
        guard.0 = None;
        Ok(Self {
            connection,
            channel,
            socket,
        })
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connection.status().connected()
    }

    /// The channel that calls share; another one if the broker has closed it.
    pub(super) async fn channel(&mut self) -> Result<Channel, lapin::Error> {
        if !self.channel.status().connected() {
            self.channel = self.new_channel().await?;
        }
        Ok(self.channel.clone())
    }

    /// A channel of its own: an answer of the broker to it concerns no other call.
    pub(super) async fn new_channel(&self) -> Result<Channel, lapin::Error> {
        confirming_channel(&self.connection).await
    }

    /// The most bytes of a frame.
    pub(super) fn frame_max(&self) -> usize {
        self.connection.configuration().frame_max() as usize
    }

    /// Closes a connection whose broker may be silent.
    pub(super) fn abandon(self) {
        self.socket.shut_down();
    }
}

async fn resolve(address: (String, u16)) -> std::io::Result<Vec<std::net::SocketAddr>> {
    Ok(tokio::net::lookup_host(address).await?.collect())
}

async fn confirming_channel(connection: &Connection) -> Result<Channel, lapin::Error> {
    let channel = connection.create_channel().await?;
    let options = ConfirmSelectOptions::default();
    channel.confirm_select(options).await?;
    Ok(channel)
}
