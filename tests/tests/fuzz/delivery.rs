//! Ways to send bytes, and what is received.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::{sleep, timeout};

use crate::wire::{self, find};

/// A daemon that sends nothing for this time has nothing to send, or waits for a job.
const QUIET: Duration = Duration::from_millis(150);
/// The time to the first answer of a delivery that waits for one, however busy the machine is.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// The longest time to an answer or the end. The daemon discards the rest of a body for at most 10 s.
const END_LIMIT: Duration = Duration::from_secs(60);
/// Searching more bytes than this would take longer than what is measured.
const LOOK_BYTES: usize = 100_000;
const DRIP_PAUSE: Duration = Duration::from_millis(20);

/// How bytes are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ByteDelivery {
    /// In one piece.
    Whole,
    /// In one piece; then an answer is waited for, unless none comes for `ANSWER_LIMIT`.
    Awaited,
    /// Each byte by itself.
    Bytes,
    /// In pieces that end at these positions.
    Pieces(Vec<usize>),
    /// The same with a pause between pieces.
    Drip(Vec<usize>),
    /// Up to a position; then the sending half is closed.
    Half(usize),
    /// Up to a position; then the connection is closed.
    Leave(usize),
    /// Up to a position; then the connection is reset.
    Reset(usize),
    /// In one piece; then the daemon has to answer, or to close the connection by itself.
    Patient,
}

impl ByteDelivery {
    /// Any way to send this many bytes.
    pub(crate) fn random(rng: &mut StdRng, length: usize) -> Self {
        let place = |rng: &mut StdRng| rng.random_range(0..=length);
        match rng.random_range(0..100) {
            0..55 => Self::Whole,
            55..58 if length < 3000 => Self::Bytes,
            58..75 => Self::Pieces(places(rng, length, 8)),
            75..80 => Self::Drip(places(rng, length, 5)),
            80..88 => Self::Half(place(rng)),
            88..92 => Self::Leave(place(rng)),
            92..97 => Self::Reset(place(rng)),
            _ => Self::Patient,
        }
    }

    /// How many of the bytes are sent at all.
    fn end(&self, length: usize) -> usize {
        match self {
            Self::Half(end) | Self::Leave(end) | Self::Reset(end) => *end,
            _ => length,
        }
    }
}

fn places(rng: &mut StdRng, length: usize, count: usize) -> Vec<usize> {
    let count = rng.random_range(1..=count);
    let mut places: Vec<usize> = (0..count).map(|_| rng.random_range(0..=length)).collect();
    places.sort_unstable();
    places
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The daemon closed it before the sending half was closed.
    Closed,
    /// The daemon closed it after the sending half was closed, so an answer may be cut.
    ClosedAfterUs,
    /// With a reset: bytes in flight may be lost.
    Reset,
    /// The test closed or reset the connection.
    Left,
    /// It did not end.
    StillOpen,
}

/// What was received, and how the connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExchangeResult {
    pub(crate) received: Vec<u8>,
    pub(crate) end: End,
}

/// Sends bytes over a new connection.
pub(crate) async fn deliver(
    address: SocketAddr,
    bytes: &[u8],
    delivery: &ByteDelivery,
) -> ExchangeResult {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.set_nodelay(true).unwrap();
    let mut received = Vec::new();
    let conversing = converse(&mut stream, bytes, delivery, &mut received);
    let end = timeout(END_LIMIT, conversing).await;
    let end = end.unwrap_or(End::StillOpen);
    ExchangeResult { received, end }
}

async fn converse(
    stream: &mut TcpStream,
    bytes: &[u8],
    delivery: &ByteDelivery,
    received: &mut Vec<u8>,
) -> End {
    let sent = &bytes[..delivery.end(bytes.len())];
    let (mut read, mut write) = stream.split();
    let all_sent = Cell::new(false);
    let sending = async {
        send(&mut write, sent, delivery).await;
        all_sent.set(true);
    };
    if matches!(delivery, ByteDelivery::Leave(_) | ByteDelivery::Reset(_)) {
        sending.await;
        if matches!(delivery, ByteDelivery::Reset(_)) || may_wait_unheard(sent) {
            let _ = stream.set_zero_linger();
        }
        return End::Left;
    }
    let asked = requests_in(sent);
    let reading = receive(&mut read, received, &all_sent, delivery, asked);
    let ((), early_end) = tokio::join!(sending, reading);
    match early_end {
        Some(End::Closed) if matches!(delivery, ByteDelivery::Half(_)) => {
            return End::ClosedAfterUs;
        }
        Some(end) => return end,
        None => {}
    }
    let _ = write.shutdown().await;
    let reading = to_the_end(&mut read, received);
    if !may_wait_unheard(sent) {
        return reading.await;
    }
    match timeout(QUIET, reading).await {
        Ok(end) => end,
        Err(_) => {
            let _ = stream.set_zero_linger();
            End::Left
        }
    }
}

async fn to_the_end(read: &mut ReadHalf<'_>, received: &mut Vec<u8>) -> End {
    let mut buffer = [0; 4096];
    loop {
        match read.read(&mut buffer).await {
            Ok(0) => return End::ClosedAfterUs,
            Ok(length) => received.extend_from_slice(&buffer[..length]),
            Err(_) => return End::Reset,
        }
    }
}

/// Whether there may be a wait for a job with more bytes behind it. The daemon notices a half-close by such a client
/// only when the wait ends, and a reset at once.
fn may_wait_unheard(sent: &[u8]) -> bool {
    if sent.len() > LOOK_BYTES {
        return true;
    }
    let may_wait = find(sent, b"imeout").is_some() || sent.contains(&b'%');
    may_wait && has_more_than_a_head(sent)
}

/// Whether there are bytes behind the first head: a body, or another request.
pub(crate) fn has_more_than_a_head(sent: &[u8]) -> bool {
    let is_end = |part: &[u8]| part.starts_with(b"\n\n") || part.starts_with(b"\n\r\n");
    let end = sent.windows(4).position(is_end);
    end.is_some_and(|end| end + 3 < sent.len())
}

/// Each text that looks like the first line of a request should get an answer. Large bodies are not searched.
fn requests_in(sent: &[u8]) -> usize {
    let mut sent = &sent[..sent.len().min(LOOK_BYTES)];
    let mut count = 0;
    while let Some(at) = find(sent, b"HTTP/1.") {
        count += 1;
        sent = &sent[at + 7..];
    }
    count.max(1)
}

async fn send(write: &mut WriteHalf<'_>, bytes: &[u8], delivery: &ByteDelivery) {
    let places: Vec<usize> = match delivery {
        ByteDelivery::Bytes => (1..bytes.len()).collect(),
        ByteDelivery::Pieces(places) | ByteDelivery::Drip(places) => places.clone(),
        _ => Vec::new(),
    };
    let mut begin = 0;
    for end in places.into_iter().chain([bytes.len()]) {
        // The daemon may have stopped reading: then it has answered, or closes the connection.
        if write.write_all(&bytes[begin..end]).await.is_err() {
            return;
        }
        begin = end;
        match delivery {
            ByteDelivery::Drip(_) => sleep(DRIP_PAUSE).await,
            _ => tokio::task::yield_now().await,
        }
    }
    if let ByteDelivery::Half(_) = delivery {
        let _ = write.shutdown().await;
    }
}

/// Reads until the connection ends, and returns how, or until all requests seem to be answered or nothing more is
/// expected.
async fn receive(
    read: &mut ReadHalf<'_>,
    received: &mut Vec<u8>,
    all_sent: &Cell<bool>,
    delivery: &ByteDelivery,
    asked: usize,
) -> Option<End> {
    let begin = Instant::now();
    let mut buffer = [0; 4096];
    loop {
        match timeout(QUIET, read.read(&mut buffer)).await {
            Ok(Ok(0)) => return Some(End::Closed),
            Ok(Ok(length)) => received.extend_from_slice(&buffer[..length]),
            Ok(Err(_)) => return Some(End::Reset),
            Err(_) => {
                let is_awaited = match delivery {
                    ByteDelivery::Patient => true,
                    ByteDelivery::Awaited => received.is_empty() && begin.elapsed() < ANSWER_LIMIT,
                    _ => false,
                };
                if all_sent.get() && !is_awaited {
                    return None;
                }
            }
        }
        if all_sent.get() && has_answers(received, asked) {
            return None;
        }
    }
}

fn has_answers(received: &[u8], asked: usize) -> bool {
    wire::read(received, false).is_ok_and(|answers| {
        let finals = answers.whole.iter().filter(|one| one.status >= 200);
        !answers.is_cut && finals.count() >= asked
    })
}
