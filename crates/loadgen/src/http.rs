//! One connection of HTTP/1.1 that costs little: prepared requests out, one reused buffer in.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::Error;

const HEADERS_MAX: usize = 32;
const FIRST_BUFFER: usize = 1024;
/// Ports that one source address can use towards one server, with room for others.
const CONNECTIONS_PER_SOURCE: usize = 20_000;

/// A kept-alive connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// How much of the buffer the answers read so far take.
    used: usize,
    /// The body of the last answer that came in chunks.
    joined: Vec<u8>,
}

/// One answer; the body lies in the connection's buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

/// What the head of an answer says.
struct Head {
    status: u16,
    bytes: usize,
    length: Length,
}

enum Length {
    Bytes(usize),
    Chunks,
}

impl Connection {
    /// Connects. `number` tells connections apart: a machine that connects to itself has too few ports
    /// for very many of them, and takes further ones from further loopback addresses.
    pub(crate) async fn open(address: SocketAddr, number: usize) -> Result<Self, Error> {
        let stream = connect(address, number).await;
        Ok(Self {
            stream: stream.map_err(Error::io(format!("connecting to {address}")))?,
            buffer: Vec::with_capacity(FIRST_BUFFER),
            used: 0,
            joined: Vec::new(),
        })
    }

    /// Sends a request, or several that follow each other, and nothing more.
    pub(crate) async fn send(&mut self, requests: &[u8]) -> Result<(), Error> {
        let sent = self.stream.write_all(requests).await;
        sent.map_err(Error::io("sending a request"))
    }

    /// The next answer.
    pub(crate) async fn answer(&mut self) -> Result<Answer<'_>, Error> {
        self.buffer.drain(..self.used);
        self.used = 0;
        let head = loop {
            match parse_head(&self.buffer)? {
                Some(head) => break head,
                None => self.read_more().await?,
            }
        };
        match head.length {
            Length::Bytes(length) => {
                let end = head.bytes + length;
                while self.buffer.len() < end {
                    self.read_more().await?;
                }
                self.used = end;
                Ok(Answer {
                    status: head.status,
                    body: &self.buffer[head.bytes..end],
                })
            }
            Length::Chunks => {
                self.used = self.join_chunks(head.bytes).await?;
                Ok(Answer {
                    status: head.status,
                    body: &self.joined,
                })
            }
        }
    }

    /// Sends one request and waits for its answer.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<Answer<'_>, Error> {
        self.send(request).await?;
        self.answer().await
    }

    /// Joins the chunks that begin at `at`, and tells where they end.
    async fn join_chunks(&mut self, mut at: usize) -> Result<usize, Error> {
        self.joined.clear();
        loop {
            let parsed = httparse::parse_chunk_size(&self.buffer[at..]);
            let (head, length) = match parsed {
                Ok(httparse::Status::Complete((head, length))) => (head, length as usize),
                Ok(httparse::Status::Partial) => {
                    self.read_more().await?;
                    continue;
                }
                Err(_) => return Err(not_http("a chunk without length")),
            };
            let end = at + head + length + 2;
            while self.buffer.len() < end {
                self.read_more().await?;
            }
            self.joined
                .extend_from_slice(&self.buffer[at + head..end - 2]);
            at = end;
            if length == 0 {
                return Ok(at);
            }
        }
    }

    async fn read_more(&mut self) -> Result<(), Error> {
        let read = self.stream.read_buf(&mut self.buffer).await;
        match read.map_err(Error::io("reading an answer"))? {
            0 => Err(Error::Io {
                doing: "reading an answer".to_owned(),
                source: io::ErrorKind::UnexpectedEof.into(),
            }),
            _ => Ok(()),
        }
    }
}

async fn connect(address: SocketAddr, number: usize) -> io::Result<TcpStream> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    let group = number / CONNECTIONS_PER_SOURCE;
    if group > 0 && address.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST) {
        let last = u8::try_from(group + 1).map_err(io::Error::other)?;
        socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into())?;
    }
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The head of an answer, once it is all there.
fn parse_head(bytes: &[u8]) -> Result<Option<Head>, Error> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut answer = httparse::Response::new(&mut headers);
    let parsed = answer.parse(bytes);
    let bytes = match parsed.map_err(|error| not_http(&error.to_string()))? {
        httparse::Status::Complete(bytes) => bytes,
        httparse::Status::Partial => return Ok(None),
    };
    let status = answer.code.unwrap_or_default();
    let mut length = Length::Bytes(0);
    for header in answer.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(header.value).unwrap_or_default();
            let number = text.trim().parse();
            length = Length::Bytes(number.map_err(|_| not_http("a length that is no number"))?);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            length = Length::Chunks;
            break;
        }
    }
    Ok(Some(Head {
        status,
        bytes,
        length,
    }))
}

fn not_http(what: &str) -> Error {
    Error::Io {
        doing: "reading an answer".to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidData, format!("not HTTP: {what}")),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// A connection whose other side sends these pieces, one by one.
    async fn answers_of(pieces: &'static [&'static str]) -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            for piece in pieces {
                stream.write_all(piece.as_bytes()).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        Connection::open(address, 0).await.unwrap()
    }

    #[tokio::test]
    async fn answers_that_arrive_together_or_in_pieces_are_told_apart() {
        let mut connection = answers_of(&[
            "HTTP/1.1 201 Created\r\nContent-Le",
            "ngth: 5\r\n\r\nhel",
            "loHTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 404 Not Found\r\ncontent-length: 1\r\n\r\nx",
        ])
        .await;
        for (status, body) in [(201, "hello"), (204, ""), (404, "x")] {
            let answer = connection.answer().await.unwrap();
            assert_eq!((answer.status, answer.body), (status, body.as_bytes()));
        }
        assert!(connection.answer().await.is_err(), "the connection ended");
    }

    #[tokio::test]
    async fn chunks_are_joined() {
        let mut connection = answers_of(&[
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
            "lo\r\n6\r\n world\r\n0\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
        ])
        .await;
        assert_eq!(connection.answer().await.unwrap().body, b"hello world");
        assert_eq!(connection.answer().await.unwrap().status, 204);
    }
}
