//! A client that sends exact bytes and may violate the protocol.

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::answer::Answer;

/// Longer than any requested wait, so that a test that hangs fails.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);
const READ_BYTES: usize = 64 * 1024;
const SMALL_BUFFER_BYTES: u32 = 16 * 1024;

/// A connection. Sends only bytes that the test writes.
#[derive(Debug)]
pub struct RawHttp {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// The status line and headers of an answer.
#[derive(Debug, Clone)]
pub struct ResponseHead {
    /// `HTTP/1.1` or `HTTP/1.0`.
    pub version: String,
    /// The status code.
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
}

impl RawHttp {
    /// Connects.
    ///
    /// # Panics
    /// If the connection is refused.
    pub async fn connect(address: SocketAddr) -> Self {
        let connection = Self::try_connect(address).await;
        connection.unwrap_or_else(|error| panic!("{address}: {error}"))
    }

    /// Connects.
    ///
    /// # Errors
    /// The connection is refused.
    pub async fn try_connect(address: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            unread: Vec::new(),
        })
    }

    /// Connects from this address, such as 127.0.0.2.
    ///
    /// # Panics
    /// If the connection is refused.
    pub async fn connect_from(own: std::net::Ipv4Addr, address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((own, 0).into()).expect("an own address");
        let stream = socket.connect(address).await;
        Self {
            stream: stream.unwrap_or_else(|error| panic!("{address}: {error}")),
            unread: Vec::new(),
        }
    }

    /// Connects with a small receive buffer, so that the peer cannot send far ahead of the reads of the test.
    ///
    /// # Panics
    /// If the connection is refused.
    pub async fn connect_with_small_buffer(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        let sized = socket.set_recv_buffer_size(SMALL_BUFFER_BYTES);
        sized.expect("a socket option");
        let stream = socket.connect(address).await;
        Self {
            stream: stream.unwrap_or_else(|error| panic!("{address}: {error}")),
            unread: Vec::new(),
        }
    }

    /// Whether the server has neither closed it nor sent something.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let mut byte = [0];
        let read = self.stream.try_read(&mut byte);
        matches!(read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// Sends these bytes. Returns whether the write succeeded.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).await.is_ok()
    }

    /// Sends a request with `host` and, if it has a body or the method is PUT or POST, `content-length`.
    ///
    /// # Panics
    /// If the write fails.
    pub async fn request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(String, String)],
        body: &[u8],
    ) {
        let mut head = format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\n");
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if !body.is_empty() || method == "PUT" || method == "POST" {
            let _ = write!(head, "content-length: {}\r\n", body.len());
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        assert!(self.send(&bytes).await, "failed to send {method} {target}");
    }

    /// Receives the next answer; `None` if the connection ended before it was complete.
    ///
    /// # Panics
    /// If it is not HTTP, or does not come within two minutes.
    pub async fn answer(&mut self) -> Option<Answer> {
        let head = self.head().await?;
        let body = self.body(&head).await?;
        Some(Answer {
            status: head.status,
            headers: head.headers,
            body,
        })
    }

    /// Receives the next status line with its headers; `None` if the connection ended before.
    ///
    /// # Panics
    /// If it is not HTTP, or does not come within two minutes.
    pub async fn head(&mut self) -> Option<ResponseHead> {
        let text = self.read_through(b"\r\n\r\n").await?;
        let text = String::from_utf8(text).expect("a head in ASCII");
        let mut lines = text.trim_end().split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let version = words.next().unwrap_or_default().to_owned();
        let status = words.next().and_then(|word| word.parse().ok());
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(':').expect("a header line");
            (name.to_lowercase(), value.trim().to_owned())
        });
        Some(ResponseHead {
            version,
            status: status.unwrap_or_else(|| panic!("no status: {text}")),
            headers: headers.collect(),
        })
    }

    async fn body(&mut self, head: &ResponseHead) -> Option<Vec<u8>> {
        if head.status < 200 || head.status == 204 || head.status == 304 {
            return Some(Vec::new());
        }
        let header = |name: &str| {
            let mut all = head.headers.iter();
            all.find(|(found, _)| found == name)
                .map(|(_, value)| value.as_str())
        };
        if header("transfer-encoding").is_some_and(|value| value == "chunked") {
            return self.chunks().await;
        }
        match header("content-length") {
            Some(length) => self.read_exact(length.parse().expect("a length")).await,
            None => Some(self.rest().await),
        }
    }

    async fn chunks(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.read_through(b"\r\n").await?;
            let text = String::from_utf8_lossy(&line);
            let length = usize::from_str_radix(text.trim(), 16).expect("a chunk length");
            let chunk = self.read_exact(length + 2).await?;
            if length == 0 {
                return Some(body);
            }
            body.extend_from_slice(&chunk[..length]);
        }
    }

    async fn read_exact(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.unread.len() < length {
            self.read_more().await?;
        }
        Some(self.unread.drain(..length).collect())
    }

    async fn read_through(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            let found = self
                .unread
                .windows(end.len())
                .position(|window| window == end);
            if let Some(at) = found {
                return Some(self.unread.drain(..at + end.len()).collect());
            }
            self.read_more().await?;
        }
    }

    /// Reads everything up to the end of the connection.
    ///
    /// # Panics
    /// If nothing arrives for two minutes and it does not end.
    pub async fn rest(&mut self) -> Vec<u8> {
        while self.read_more().await.is_some() {}
        std::mem::take(&mut self.unread)
    }

    /// Reads and discards up to `bytes` bytes, and returns their number; `None` if the connection ended.
    ///
    /// # Panics
    /// If nothing arrives within two minutes.
    pub async fn read_at_most(&mut self, bytes: usize) -> Option<usize> {
        if !self.unread.is_empty() {
            return Some(std::mem::take(&mut self.unread).len());
        }
        let mut buffer = vec![0; bytes];
        let read = timeout(ANSWER_LIMIT, self.stream.read(&mut buffer)).await;
        match read.expect("bytes or an end in time") {
            Ok(0) | Err(_) => None,
            Ok(count) => Some(count),
        }
    }

    async fn read_more(&mut self) -> Option<()> {
        let mut bytes = vec![0; READ_BYTES];
        let read = timeout(ANSWER_LIMIT, self.stream.read(&mut bytes)).await;
        match read.expect("an answer or an end in time") {
            Ok(0) | Err(_) => None,
            Ok(count) => {
                self.unread.extend_from_slice(&bytes[..count]);
                Some(())
            }
        }
    }

    /// Whether the peer closes the connection within `limit`, without another byte.
    pub async fn is_closed_within(&mut self, limit: Duration) -> bool {
        let mut byte = [0];
        let read = timeout(limit, self.stream.read(&mut byte)).await;
        matches!(read, Ok(Ok(0) | Err(_)))
    }

    /// Resets the connection, as after a crash of the client.
    pub fn reset(self) {
        let _ = self.stream.set_zero_linger();
    }
}
