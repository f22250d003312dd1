//! A cheap HTTP/1.1 connection to one API.

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const HEADERS_MAX: usize = 32;
const FIRST_BUFFER: usize = 2048;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SoakAnswer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    /// Whether the server closes the connection behind it.
    closes: bool,
}

/// A keep-alive connection.
#[derive(Debug)]
pub(super) struct SoakConnection {
    stream: TcpStream,
    unread: Vec<u8>,
}

enum BodyEnd {
    Length(usize),
    Chunks,
}

impl SoakConnection {
    pub(super) async fn open(address: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            unread: Vec::with_capacity(FIRST_BUFFER),
        })
    }

    /// Whether the server has not closed it while it was idle.
    pub(super) fn is_open(&self) -> bool {
        let mut byte = [0];
        let read = self.stream.try_read(&mut byte);
        matches!(read, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// Sends a request and receives its answer.
    ///
    /// # Errors
    /// The connection ended before the answer was complete, or the answer is not HTTP.
    pub(super) async fn exchange(&mut self, request: &[u8]) -> std::io::Result<SoakAnswer> {
        self.stream.write_all(request).await?;
        loop {
            match self.parse()? {
                Some(answer) => return Ok(answer),
                None => self.read_more().await?,
            }
        }
    }

    async fn read_more(&mut self) -> std::io::Result<()> {
        match self.stream.read_buf(&mut self.unread).await? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Takes an answer from the bytes that have arrived, if it is complete.
    fn parse(&mut self) -> std::io::Result<Option<SoakAnswer>> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Response::new(&mut headers);
        let parsed = head.parse(&self.unread).map_err(invalid)?;
        let httparse::Status::Complete(begin) = parsed else {
            return Ok(None);
        };
        let status = head.code.unwrap_or_default();
        let (mut end, mut closes) = (BodyEnd::Length(0), false);
        for header in head.headers.iter() {
            let value = std::str::from_utf8(header.value).map_err(invalid)?;
            if header.name.eq_ignore_ascii_case("content-length") {
                end = BodyEnd::Length(value.parse().map_err(invalid)?);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                end = BodyEnd::Chunks;
            } else if header.name.eq_ignore_ascii_case("connection") {
                closes = value.eq_ignore_ascii_case("close");
            }
        }
        let found = match end {
            BodyEnd::Length(length) => self
                .unread
                .get(begin..begin + length)
                .map(|body| (body.to_vec(), begin + length)),
            BodyEnd::Chunks => join_chunks(&self.unread, begin)?,
        };
        let Some((body, used)) = found else {
            return Ok(None);
        };
        self.unread.drain(..used);
        Ok(Some(SoakAnswer {
            status,
            body,
            closes,
        }))
    }
}

impl SoakAnswer {
    pub(super) fn closes_connection(&self) -> bool {
        self.closes
    }
}

/// Returns the joined chunks that begin at `at`, and where they end; `None` if they are not complete.
fn join_chunks(bytes: &[u8], mut at: usize) -> std::io::Result<Option<(Vec<u8>, usize)>> {
    const LINE_END: usize = 2;
    let mut body = Vec::new();
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let size = httparse::parse_chunk_size(rest)
            .map_err(|_| Error::new(ErrorKind::InvalidData, "a wrong chunk size"))?;
        let httparse::Status::Complete((begin, length)) = size else {
            return Ok(None);
        };
        let begin = at + begin;
        let end = begin + usize::try_from(length).map_err(invalid)?;
        if bytes.len() < end + LINE_END {
            return Ok(None);
        }
        at = end + LINE_END;
        if begin == end {
            return Ok(Some((body, at)));
        }
        body.extend_from_slice(&bytes[begin..end]);
    }
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Sends these parts, one after the other, to a connection, and closes it.
    async fn connection_with(parts: &'static [&'static str]) -> SoakConnection {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            for part in parts {
                stream.write_all(part.as_bytes()).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        SoakConnection::open(address).await.unwrap()
    }

    #[tokio::test]
    async fn answers_are_read_with_a_length_in_chunks_and_without_a_body() {
        let parts = &[
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe",
            "lloHTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
            "1\r\nc\r\n0\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
        ];
        let mut connection = connection_with(parts).await;
        let mut expect = async |status, body: &str| {
            let answer = connection.exchange(b"").await.unwrap();
            assert_eq!(
                (answer.status, answer.body.as_slice()),
                (status, body.as_bytes())
            );
            answer.closes_connection()
        };
        assert!(!expect(200, "hello").await);
        assert!(!expect(201, "abc").await);
        assert!(expect(204, "").await);
        let end = connection.exchange(b"").await.unwrap_err();
        assert_eq!(end.kind(), ErrorKind::UnexpectedEof);
        assert!(!connection.is_open());
    }

    #[tokio::test]
    async fn an_answer_that_is_not_http_is_an_error() {
        let mut connection = connection_with(&["hello\r\n\r\n"]).await;
        let error = connection.exchange(b"").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    }
}
