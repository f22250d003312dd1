//! A word for connections beyond the limit, so that a client hears why, and when to come back.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Everything together: from the accept to the end of the connection.
const TIME: Duration = Duration::from_secs(1);
/// What is read off of a request, so that an ordinary client gets to read the answer: closing with
/// something unread would destroy it on its way. It is a publish of the usual sizes.
const DISCARD_BYTES: usize = 2 * 1024 * 1024;
const BUFFER_BYTES: usize = 4096;

const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    Content-Type: application/json; charset=utf-8\r\n\
    Content-Length: 32\r\n\
    Retry-After: 1\r\n\
    Connection: close\r\n\
    \r\n\
    {\"error\":\"too many connections\"}";

/// Answers whatever the client asks with 503, and ends the connection. It takes a second at most.
pub(crate) async fn refuse(stream: TcpStream) {
    // A client that takes longer, or has gone, does not get to hear it.
    let _ = timeout(TIME, answer(stream)).await;
}

async fn answer(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = [0; BUFFER_BYTES];
    // Clients take an answer for a fault that comes before they have asked.
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
    fn the_answer_has_the_length_it_says() {
        let text = std::str::from_utf8(ANSWER).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
    }
}
