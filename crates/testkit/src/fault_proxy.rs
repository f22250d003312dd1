//! A TCP proxy that does to connections what networks do to them.
//!
//! What holds for all connections, until it is changed again, is the [`Weather`]: delay, stall, bytes that
//! vanish, each way by itself. What happens at one moment to the connections of that moment is a call:
//! [`FaultProxy::cut`], [`FaultProxy::silence`]. The distance of the server is set at the start and stays: unlike a delay
//! of the weather, which holds up all bytes behind, it lets any number of pieces be in flight.

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
/// Pieces in flight in one direction of a connection. A sender that is faster waits.
const IN_FLIGHT_MAX: usize = 64;

/// What becomes of bytes that go one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flow {
    /// They arrive.
    #[default]
    Passes,
    /// They wait until this changes.
    Stalls,
    /// They are taken and never arrive, and nobody is told. A connection that has lost bytes stays mute in this
    /// direction, also when others flow again: the rest of its bytes would make no sense.
    Vanishes,
}

/// One direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Way {
    /// What becomes of its bytes.
    pub flow: Flow,
    /// How long each piece is held back.
    pub delay: Duration,
    /// The most that chance adds to the delay.
    pub jitter: Duration,
}

/// What holds for all connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weather {
    /// From clients to the server.
    pub to_server: Way,
    /// From the server to clients.
    pub to_client: Way,
    /// Whether new connections are closed at once.
    pub refuses: bool,
}

/// A listener on this machine before a server. Dropping it ends the listening and all connections.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    seed: u64,
    distance: Duration,
    weather: watch::Sender<Weather>,
    /// Counts the cuts: a connection that sees it change ends.
    cuts: watch::Sender<u64>,
    /// The number of the next connection when silence fell last: those before it are mute.
    mute_before: watch::Sender<u64>,
    connections: AtomicU64,
}

impl FaultProxy {
    /// Passes connections on to `target`. Jitter is drawn from the seed.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn start(target: SocketAddr, seed: u64) -> Self {
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        Self::start_at(address, target, Duration::ZERO, seed).await
    }

    /// The same, with a listener at this address of the machine. Each byte takes at least `distance`, in either direction.
    ///
    /// # Panics
    /// When the address is taken.
    pub async fn start_at(
        address: SocketAddr,
        target: SocketAddr,
        distance: Duration,
        seed: u64,
    ) -> Self {
        let listening = TcpListener::bind(address).await;
        let listener = listening.unwrap_or_else(|error| panic!("{address}: {error}"));
        let shared = Arc::new(Shared {
            target,
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

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on this holds.
    pub fn set(&self, weather: Weather) {
        self.shared.weather.send_replace(weather);
    }

    /// Ends all connections with a reset.
    pub fn cut(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Makes all connections half open: whatever either side sends vanishes, even that it closed. New
    /// connections work. So ends a connection whose state a firewall on the way has forgotten.
    pub fn silence(&self) {
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

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        if shared.weather.borrow().refuses {
            let _ = client.set_zero_linger();
            continue;
        }
        let number = shared.connections.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(connect(Arc::clone(&shared), client, number));
    }
}

async fn connect(shared: Arc<Shared>, mut client: TcpStream, number: u64) {
    let mut cuts = shared.cuts.subscribe();
    // A server that is not there closes the connection, as far as the client can see.
    let Ok(mut server) = TcpStream::connect(shared.target).await else {
        return;
    };
    for stream in [&client, &server] {
        let _ = stream.set_nodelay(true);
    }
    let was_cut = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let there = Carrier::new(&shared, number, |weather| weather.to_server);
        let back = Carrier::new(&shared, number, |weather| weather.to_client);
        let carrying = async {
            tokio::try_join!(
                there.carry(from_client, to_server),
                back.carry(from_server, to_client)
            )
        };
        tokio::select! {
            // After a cut nothing passes, whatever may pass from then on.
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

/// Carries the bytes of one connection one way.
struct Carrier {
    weather: watch::Receiver<Weather>,
    mute_before: watch::Receiver<u64>,
    number: u64,
    way: fn(&Weather) -> Way,
    distance: Duration,
    random: StdRng,
    is_mute: bool,
}

/// Bytes in flight, and when they arrive.
type Piece = (Instant, Vec<u8>);

impl Carrier {
    fn new(shared: &Shared, number: u64, way: fn(&Weather) -> Way) -> Self {
        Self {
            weather: shared.weather.subscribe(),
            mute_before: shared.mute_before.subscribe(),
            number,
            way,
            distance: shared.distance,
            random: StdRng::seed_from_u64(shared.seed ^ number),
            is_mute: false,
        }
    }

    async fn carry(self, from: ReadHalf<'_>, to: WriteHalf<'_>) -> io::Result<()> {
        let (sender, receiver) = mpsc::channel(IN_FLIGHT_MAX);
        tokio::try_join!(self.read(from, sender), arrive(receiver, to))?;
        Ok(())
    }

    async fn read(mut self, mut from: ReadHalf<'_>, sender: mpsc::Sender<Piece>) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let read = from.read(&mut buffer).await?;
            self.wait().await;
            match (self.is_mute, read) {
                (false, 0) => return Ok(()),
                (false, _) => {
                    let piece = (Instant::now() + self.distance, buffer[..read].to_vec());
                    // The other side ends only together with this one.
                    let _ = sender.send(piece).await;
                }
                // Nobody hears of this end: only a cut ends the rest.
                (true, 0) => std::future::pending().await,
                (true, _) => {}
            }
        }
    }

    /// Waits as long as the weather asks to.
    async fn wait(&mut self) {
        let flowing = self
            .weather
            .wait_for(|weather| (self.way)(weather).flow != Flow::Stalls);
        let Ok(way) = flowing.await.map(|weather| (self.way)(&weather)) else {
            return;
        };
        let pause = way.delay + way.jitter.mul_f64(self.random.random());
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        self.is_mute |= way.flow == Flow::Vanishes || self.number < *self.mute_before.borrow();
    }
}

/// Writes each piece when it arrives; the end of the pieces is the end of this direction.
async fn arrive(mut pieces: mpsc::Receiver<Piece>, mut to: WriteHalf<'_>) -> io::Result<()> {
    while let Some((at, bytes)) = pieces.recv().await {
        // A timer that is over takes until the next ms all the same.
        if at > Instant::now() {
            tokio::time::sleep_until(at).await;
        }
        to.write_all(&bytes).await?;
    }
    to.shutdown().await
}

#[cfg(test)]
mod tests;
