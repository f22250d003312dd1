//! A cheap HTTP/1.1 client connection: prepared requests, and one reused buffer for answers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::error::LoadgenError;

const HEADERS_MAX: usize = 32;
const FIRST_BUFFER: usize = 1024;
/// Connections per source address, below the number of ephemeral ports towards one server.
const CONNECTIONS_PER_SOURCE: usize = 20_000;

/// A keep-alive connection.
#[derive(Debug)]
pub(crate) struct HttpConnection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Bytes of the buffer that belong to the last answer.
    used: usize,
    /// The joined body of the last chunked answer.
    joined: Vec<u8>,
}

/// One answer. The body is in the connection's buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HttpAnswer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

/// The parsed head of an answer.
struct AnswerHead {
    status: u16,
    bytes: usize,
    length: BodyLength,
}

enum BodyLength {
    Bytes(usize),
    Chunks,
}

impl HttpConnection {
    /// Connects. `number` selects the source address: over loopback one address has too few ports for
    /// very many connections, so each further 20,000 connections use a further loopback address.
    pub(crate) async fn open(address: SocketAddr, number: usize) -> Result<Self, LoadgenError> {
        let stream = connect(address, number).await;
        Ok(Self {
            stream: stream.map_err(LoadgenError::io(format!("connecting to {address}")))?,
            buffer: Vec::with_capacity(FIRST_BUFFER),
            used: 0,
            joined: Vec::new(),
        })
    }

    /// Sends a request, or several pipelined ones, without waiting for answers.
    pub(crate) async fn send(&mut self, requests: &[u8]) -> Result<(), LoadgenError> {
        let sent = self.stream.write_all(requests).await;
        sent.map_err(LoadgenError::io("sending a request"))
    }

    /// Receives the next answer.
    pub(crate) async fn answer(&mut self) -> Result<HttpAnswer<'_>, LoadgenError> {
        self.buffer.drain(..self.used);
        self.used = 0;
        let head = loop {
            match parse_head(&self.buffer)? {
                Some(head) => break head,
                None => self.read_more().await?,
            }
        };
        match head.length {
            BodyLength::Bytes(length) => {
                let end = head.bytes + length;
                while self.buffer.len() < end {
                    self.read_more().await?;
                }
                self.used = end;
                Ok(HttpAnswer {
                    status: head.status,
                    body: &self.buffer[head.bytes..end],
                })
            }
            BodyLength::Chunks => {
                self.used = self.join_chunks(head.bytes).await?;
                Ok(HttpAnswer {
                    status: head.status,
                    body: &self.joined,
                })
            }
        }
    }

    /// Sends one request and waits for its answer.
    pub(crate) async fn exchange(
        &mut self,
        request: &[u8],
    ) -> Result<HttpAnswer<'_>, LoadgenError> {
        self.send(request).await?;
        self.answer().await
    }

    /// The bytes of the last answer, with its head.
    pub(crate) fn last_answer(&self) -> &[u8] {
        &self.buffer[..self.used]
    }

    /// Joins the chunks that begin at `at`. Returns where they end.
    async fn join_chunks(&mut self, mut at: usize) -> Result<usize, LoadgenError> {
        self.joined.clear();
        loop {
            let parsed = httparse::parse_chunk_size(&self.buffer[at..]);
            let (head, length) = match parsed {
                Ok(httparse::Status::Complete((head, length))) => (head, length as usize),
                Ok(httparse::Status::Partial) => {
                    self.read_more().await?;
                    continue;
                }
                Err(_) => return Err(protocol_error("a chunk without a length")),
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

    async fn read_more(&mut self) -> Result<(), LoadgenError> {
        let read = self.stream.read_buf(&mut self.buffer).await;
        match read.map_err(LoadgenError::io("reading an answer"))? {
            0 => Err(LoadgenError::Io {
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

/// Parses the head of an answer; `None` if it is incomplete.
fn parse_head(bytes: &[u8]) -> Result<Option<AnswerHead>, LoadgenError> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut answer = httparse::Response::new(&mut headers);
    let parsed = answer.parse(bytes);
    let bytes = match parsed.map_err(|error| protocol_error(&error.to_string()))? {
        httparse::Status::Complete(bytes) => bytes,
        httparse::Status::Partial => return Ok(None),
    };
    let status = answer.code.unwrap_or_default();
    let mut length = BodyLength::Bytes(0);
    for header in answer.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(header.value).unwrap_or_default();
            let number = text.trim().parse();
            length = BodyLength::Bytes(
                number.map_err(|_| protocol_error("a content length that is not a number"))?,
            );
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            length = BodyLength::Chunks;
            break;
        }
    }
    Ok(Some(AnswerHead {
        status,
        bytes,
        length,
    }))
}

fn protocol_error(what: &str) -> LoadgenError {
    LoadgenError::Io {
        doing: "reading an answer".to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidData, format!("not HTTP: {what}")),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// A connection whose peer sends these pieces one by one.
    async fn connection_with_answers(pieces: &'static [&'static str]) -> HttpConnection {
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
        HttpConnection::open(address, 0).await.unwrap()
    }

    #[tokio::test]
    async fn answers_that_arrive_together_or_in_pieces_are_separated() {
        let mut connection = connection_with_answers(&[
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
        let mut connection = connection_with_answers(&[
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
            "lo\r\n6\r\n world\r\n0\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
        ])
        .await;
        assert_eq!(connection.answer().await.unwrap().body, b"hello world");
        assert_eq!(connection.answer().await.unwrap().status, 204);
    }
}
