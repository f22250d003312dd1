//! A limit of the interim answers (`100 Continue`, `103 Early Hints`) before an answer.
//!
//! hyper skips interim answers without a limit, and in one poll while bytes are there: a server that sends them endlessly
//! holds a thread of the runtime, and no time limit ends it. So they are counted below hyper.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::future::BoxFuture;
use hyper::Uri;
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tower::Service;

use crate::connection_use::ConnectionUse;

/// The most interim answers before an answer.
const INTERIM_ANSWERS_MAX: u32 = 16;
/// The most bytes of them.
const INTERIM_BYTES_MAX: usize = 64 * 1024;
/// How much is read at once until the head of an answer begins. The rest of an answer is not copied.
const CHUNK_BYTES: usize = 2048;
/// How the first line of an interim answer begins; 0 is any byte.
const INTERIM_LINE: [u8; 10] = *b"HTTP/1.\0 1";

/// A connector whose connections fail if a server sends too many interim answers. It is the outermost one, since it reads
/// what TLS has decrypted.
#[derive(Debug, Clone)]
pub struct InterimLimitConnector<C>(pub C);

impl<C> Service<Uri> for InterimLimitConnector<C>
where
    C: Service<Uri>,
    C::Error: Into<Box<dyn Error + Send + Sync>>,
    C::Future: Send + 'static,
{
    type Response = InterimLimitedIo<C::Response>;
    type Error = C::Error;
    type Future = BoxFuture<'static, Result<Self::Response, C::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.0.call(uri);
        Box::pin(async {
            Ok(InterimLimitedIo {
                inner: connecting.await?,
                heads: AnswerHeads::default(),
                connection_use: ConnectionUse::new(),
            })
        })
    }
}

/// A connection that fails if the server sends too many interim answers.
#[derive(Debug)]
pub struct InterimLimitedIo<T> {
    inner: T,
    heads: AnswerHeads,
    connection_use: ConnectionUse,
}

impl<T> InterimLimitedIo<T> {
    /// A request is written. If it is a part of the one before, its answer has not begun.
    fn expect_answer(&mut self) {
        if self.heads.place == HeadPlace::Passed {
            self.heads = AnswerHeads::default();
            self.connection_use.begin_next_request();
        }
    }
}

impl<T: Read + Unpin> Read for InterimLimitedIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.heads.place == HeadPlace::Passed {
            return Pin::new(&mut self.inner).poll_read(context, buffer);
        }
        let mut chunk = [0; CHUNK_BYTES];
        let room = buffer.remaining().min(CHUNK_BYTES);
        let mut read = ReadBuf::new(&mut chunk[..room]);
        ready!(Pin::new(&mut self.inner).poll_read(context, read.unfilled()))?;
        if !read.filled().is_empty() {
            self.connection_use.receive();
        }
        self.heads.see(read.filled())?;
        buffer.put_slice(read.filled());
        Poll::Ready(Ok(()))
    }
}

impl<T: Write + Unpin> Write for InterimLimitedIo<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.expect_answer();
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.expect_answer();
        Pin::new(&mut self.inner).poll_write_vectored(context, parts)
    }
}

impl<T: Connection> Connection for InterimLimitedIo<T> {
    fn connected(&self) -> Connected {
        self.inner.connected().extra(self.connection_use.clone())
    }
}

/// Where in the answers to a request the next byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeadPlace {
    /// So many bytes of a first line, which are those of an interim answer.
    FirstLine(usize),
    /// In an interim answer, behind so many bytes of a line.
    Interim(usize),
    /// The head of the answer has begun.
    Passed,
}

/// Finds the interim answers among the bytes that are read.
#[derive(Debug)]
struct AnswerHeads {
    place: HeadPlace,
    interim_answers: u32,
    interim_bytes: usize,
}

impl Default for AnswerHeads {
    fn default() -> Self {
        Self {
            place: HeadPlace::FirstLine(0),
            interim_answers: 0,
            interim_bytes: 0,
        }
    }
}

impl AnswerHeads {
    /// # Errors
    /// There are too many interim answers.
    fn see(&mut self, bytes: &[u8]) -> io::Result<()> {
        for byte in bytes {
            self.place = self.after(*byte);
            if self.place == HeadPlace::Passed {
                return Ok(());
            }
            self.interim_bytes += 1;
        }
        let is_endless =
            self.interim_answers > INTERIM_ANSWERS_MAX || self.interim_bytes > INTERIM_BYTES_MAX;
        match is_endless {
            true => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the server sends endless interim answers",
            )),
            false => Ok(()),
        }
    }

    fn after(&mut self, byte: u8) -> HeadPlace {
        match self.place {
            // hyper skips empty lines before a head.
            HeadPlace::FirstLine(0) if matches!(byte, b'\r' | b'\n') => self.place,
            HeadPlace::FirstLine(seen) if ![0, byte].contains(&INTERIM_LINE[seen]) => {
                HeadPlace::Passed
            }
            HeadPlace::FirstLine(seen) if seen + 1 < INTERIM_LINE.len() => {
                HeadPlace::FirstLine(seen + 1)
            }
            HeadPlace::FirstLine(seen) => HeadPlace::Interim(seen + 1),
            HeadPlace::Interim(0) if byte == b'\n' => {
                self.interim_answers += 1;
                HeadPlace::FirstLine(0)
            }
            HeadPlace::Interim(_) if byte == b'\n' => HeadPlace::Interim(0),
            HeadPlace::Interim(line) if byte == b'\r' => HeadPlace::Interim(line),
            HeadPlace::Interim(line) => HeadPlace::Interim(line + 1),
            HeadPlace::Passed => HeadPlace::Passed,
        }
    }
}
