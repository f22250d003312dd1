//! A TCP proxy that injects network faults.
//!
//! [`NetworkConditions`] applies to all connections until it is changed: delay, rate, stall, dropped bytes, separately
//! for each direction. [`FaultProxy::cut`] and [`FaultProxy::make_half_open`] affect the connections that exist at that
//! moment, [`FaultProxy::lead_to`] only later ones. The distance of the server is fixed at the start: unlike a delay of
//! the weather, which also holds up all bytes behind, it is a pure latency and lets many pieces be in flight.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

const CHUNK_BYTES: usize = 16 * 1024;
/// Largest number of pieces in flight in one direction of a connection. A faster sender blocks.
const IN_FLIGHT_MAX: usize = 64;
/// How much transfers that began late may catch up. Timers have a resolution of 1 ms, more than the time of a piece.
const CATCH_UP_MAX: Duration = Duration::from_millis(20);

/// The treatment of bytes in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForwardMode {
    /// They pass.
    #[default]
    Passes,
    /// They are held until this changes.
    Stalls,
    /// They are dropped silently. A connection that has lost bytes stays mute in this direction, even if others pass
    /// again: the rest of its stream would be corrupt.
    Vanishes,
}

/// The state of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectionConditions {
    /// The treatment of bytes.
    pub mode: ForwardMode,
    /// How long each piece is held back.
    pub delay: Duration,
    /// Upper bound of a random addition to the delay.
    pub jitter: Duration,
    /// The most bytes that each connection transfers in a second; `None` = no limit.
    pub bytes_per_second: Option<u32>,
}

/// The state of the network, for all connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NetworkConditions {
    /// From clients to the server.
    pub to_server: DirectionConditions,
    /// From the server to clients.
    pub to_client: DirectionConditions,
    /// Whether new connections are reset immediately.
    pub resets_connections: bool,
}

/// A listener on this machine in front of a server. Dropping it closes the listener and all connections.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<ProxyState>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct ProxyState {
    /// The server of new connections.
    target: watch::Sender<SocketAddr>,
    seed: u64,
    distance: Duration,
    weather: watch::Sender<NetworkConditions>,
    /// Number of cuts. A connection ends when this changes.
    cuts: watch::Sender<u64>,
    /// The number of the next connection at the last silence. Connections with smaller numbers are mute.
    mute_before: watch::Sender<u64>,
    connections: AtomicU64,
}

impl FaultProxy {
    /// Starts a proxy to `target` on a free port. `seed` determines the jitter.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn start(target: SocketAddr, seed: u64) -> Self {
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        Self::start_at(address, target, Duration::ZERO, seed).await
    }

    /// Like [`Self::start`], with a listener on this address. Each byte takes at least `distance`, in each direction.
    ///
    /// # Panics
    /// If the address is taken.
    pub async fn start_at(
        address: SocketAddr,
        target: SocketAddr,
        distance: Duration,
        seed: u64,
    ) -> Self {
        let listening = TcpListener::bind(address).await;
        let listener = listening.unwrap_or_else(|error| panic!("{address}: {error}"));
        let shared = Arc::new(ProxyState {
            target: watch::Sender::new(target),
            seed,
            distance,
            weather: watch::Sender::default(),
            cuts: watch::Sender::default(),
            mute_before: watch::Sender::default(),
            connections: AtomicU64::new(0),
        });
        Self {
            address: listener.local_addr().expect("a listener has an address"),
            task: tokio::spawn(accept(listener, Arc::clone(&shared))),
            shared,
        }
    }

    /// The address of the listener.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the state of the network.
    pub fn set(&self, weather: NetworkConditions) {
        self.shared.weather.send_replace(weather);
    }

    /// Makes new connections lead to another server. Existing ones stay, as behind a virtual address or a Service of
    /// Kubernetes.
    pub fn lead_to(&self, target: SocketAddr) {
        self.shared.target.send_replace(target);
    }

    /// Resets all connections.
    pub fn cut(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Makes all connections half open: everything that either side sends is dropped, even its close. New connections
    /// work. A firewall that forgets the state of a connection has this effect.
    pub fn make_half_open(&self) {
        let next = self.shared.connections.load(Ordering::Relaxed);
        self.shared.mute_before.send_replace(next);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.task.abort();
        self.cut();
    }
}

async fn accept(listener: TcpListener, shared: Arc<ProxyState>) {
    while let Ok((client, _)) = listener.accept().await {
        if shared.weather.borrow().resets_connections {
            let _ = client.set_zero_linger();
            continue;
        }
        let number = shared.connections.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(connect(Arc::clone(&shared), client, number));
    }
}

async fn connect(shared: Arc<ProxyState>, mut client: TcpStream, number: u64) {
    let mut cuts = shared.cuts.subscribe();
    // If the server is unreachable, the client sees a close.
    let target = *shared.target.borrow();
    let Ok(mut server) = TcpStream::connect(target).await else {
        return;
    };
    for stream in [&client, &server] {
        let _ = stream.set_nodelay(true);
    }
    let was_cut = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let there = DirectionForwarder::new(&shared, number, |weather| weather.to_server);
        let back = DirectionForwarder::new(&shared, number, |weather| weather.to_client);
        let carrying = async {
            tokio::try_join!(
                there.forward(from_client, to_server),
                back.forward(from_server, to_client)
            )
        };
        tokio::select! {
            // After a cut nothing more passes, even if the weather changes at the same time.
            biased;
            _ = cuts.changed() => true,
            ended = carrying => ended.is_err(),
        }
    };
    if was_cut {
        for stream in [&client, &server] {
            let _ = stream.set_zero_linger();
        }
    }
}

/// Forwards the bytes of one connection in one direction.
struct DirectionForwarder {
    weather: watch::Receiver<NetworkConditions>,
    mute_before: watch::Receiver<u64>,
    number: u64,
    way: fn(&NetworkConditions) -> DirectionConditions,
    distance: Duration,
    random: StdRng,
    is_half_open: bool,
    /// When the last piece was transferred, with a limited number of bytes a second.
    transferred_at: Instant,
}

/// Bytes in flight, with their arrival time.
type TimedPiece = (Instant, Vec<u8>);

impl DirectionForwarder {
    fn new(
        shared: &ProxyState,
        number: u64,
        way: fn(&NetworkConditions) -> DirectionConditions,
    ) -> Self {
        Self {
            weather: shared.weather.subscribe(),
            mute_before: shared.mute_before.subscribe(),
            number,
            way,
            distance: shared.distance,
            random: StdRng::seed_from_u64(shared.seed ^ number),
            is_half_open: false,
            transferred_at: Instant::now(),
        }
    }

    async fn forward(self, from: ReadHalf<'_>, to: WriteHalf<'_>) -> io::Result<()> {
        let (sender, receiver) = mpsc::channel(IN_FLIGHT_MAX);
        tokio::try_join!(self.read(from, sender), arrive(receiver, to))?;
        Ok(())
    }

    async fn read(
        mut self,
        mut from: ReadHalf<'_>,
        sender: mpsc::Sender<TimedPiece>,
    ) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let read = from.read(&mut buffer).await?;
            self.wait(read).await;
            match (self.is_half_open, read) {
                (false, 0) => return Ok(()),
                (false, _) => {
                    let piece = (Instant::now() + self.distance, buffer[..read].to_vec());
                    // The receiver lives as long as this future, so this cannot fail.
                    let _ = sender.send(piece).await;
                }
                // The end is not forwarded either; only a cut ends this connection.
                (true, 0) => std::future::pending().await,
                (true, _) => {}
            }
        }
    }

    /// Waits for the stall and the delay of the weather, and for the transfer of this many bytes.
    async fn wait(&mut self, bytes: usize) {
        let flowing = self
            .weather
            .wait_for(|weather| (self.way)(weather).mode != ForwardMode::Stalls);
        let Ok(way) = flowing.await.map(|weather| (self.way)(&weather)) else {
            return;
        };
        let pause = way.delay + way.jitter.mul_f64(self.random.random());
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        if let Some(bytes_per_second) = way.bytes_per_second {
            let takes = Duration::from_secs_f64(bytes as f64 / f64::from(bytes_per_second));
            let began_at = self.transferred_at.max(Instant::now() - CATCH_UP_MAX);
            self.transferred_at = began_at + takes;
            tokio::time::sleep_until(self.transferred_at).await;
        }
        self.is_half_open |=
            way.mode == ForwardMode::Vanishes || self.number < *self.mute_before.borrow();
    }
}

/// Writes each piece at its arrival time. Closes this direction after the last one.
async fn arrive(mut pieces: mpsc::Receiver<TimedPiece>, mut to: WriteHalf<'_>) -> io::Result<()> {
    while let Some((at, bytes)) = pieces.recv().await {
        // Even an expired timer waits until the next ms.
        if at > Instant::now() {
            tokio::time::sleep_until(at).await;
        }
        to.write_all(&bytes).await?;
    }
    to.shutdown().await
}

#[cfg(test)]
mod tests;
