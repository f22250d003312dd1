//! The 503 answer for connections beyond the limit, with `Retry-After`.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use ulid::Ulid;

/// Time limit from the accept to the end of the connection.
const TIME: Duration = Duration::from_secs(1);
/// Largest part of a request that is read and discarded, in bytes: a close with unread input resets
/// the connection, and the client could lose the answer. Enough for a publish of usual size.
const DISCARD_BYTES: usize = 2 * 1024 * 1024;
const BUFFER_BYTES: usize = 4096;

/// Answers any request with 503 and closes the connection, within a second.
pub(crate) async fn respond_overloaded(stream: TcpStream) {
    // A slow client, or a client that has left, gets no answer.
    let _ = timeout(TIME, write_response(stream)).await;
}

async fn write_response(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = [0; BUFFER_BYTES];
    // Clients treat an answer that precedes their request as a protocol error.
    let mut bytes_read = stream.read(&mut buffer).await?;
    let answer = answer(Ulid::generate());
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    while bytes_read < DISCARD_BYTES {
        match stream.read(&mut buffer).await? {
            0 => break,
            more => bytes_read += more,
        }
    }
    Ok(())
}

/// The request is not read, so its wire is not known: the body is a problem document of the native API, and has the
/// member `error` of lmstfy.
fn answer(request_id: Ulid) -> String {
    let body = format!(
        concat!(
            r#"{{"applied":"no","code":"too_many_connections","#,
            r#""detail":"the server has as many connections as its settings allow; repeat the request","#,
            r#""error":"too many connections","instance":"{}","status":503,"#,
            r#""title":"Too many connections","type":"urn:tidegate:problem:too_many_connections"}}"#
        ),
        request_id
    );
    let length = body.len();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\n\
        Content-Type: application/problem+json\r\n\
        Content-Length: {length}\r\n\
        Retry-After: 1\r\n\
        X-Request-Id: {request_id}\r\n\
        Connection: close\r\n\
        \r\n\
        {body}"
    )
}
