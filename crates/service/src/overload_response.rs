//! The 503 answer for connections beyond the limit, with `Retry-After`.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Time limit from the accept to the end of the connection.
const TIME: Duration = Duration::from_secs(1);
/// Largest part of a request that is read and discarded, in bytes: a close with unread input resets
/// the connection, and the client could lose the answer. Enough for a publish of usual size.
const DISCARD_BYTES: usize = 2 * 1024 * 1024;
const BUFFER_BYTES: usize = 4096;

const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    Content-Type: application/json; charset=utf-8\r\n\
    Content-Length: 32\r\n\
    Retry-After: 1\r\n\
    Connection: close\r\n\
    \r\n\
    {\"error\":\"too many connections\"}";

/// Answers any request with 503 and closes the connection, within a second.
pub(crate) async fn respond_overloaded(stream: TcpStream) {
    // A slow client, or one that has left, gets no answer.
    let _ = timeout(TIME, write_response(stream)).await;
}

async fn write_response(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = [0; BUFFER_BYTES];
    // Clients treat an answer that precedes their request as a protocol error.
    let mut bytes_read = stream.read(&mut buffer).await?;
    stream.write_all(ANSWER).await?;
    stream.shutdown().await?;
    while bytes_read < DISCARD_BYTES {
        match stream.read(&mut buffer).await? {
            0 => break,
            more => bytes_read += more,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_length_is_correct() {
        let text = std::str::from_utf8(ANSWER).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
    }
}
