//! The functions for the benchmark of the HTTP client.

use std::net::SocketAddr;

use crate::error::LoadgenError;
use crate::http::HttpConnection;

/// Sends a request this many times on one connection, each after the answer to the request before, and returns how many
/// were answered with 201.
///
/// # Errors
/// The connection cannot be made, or ends.
pub async fn exchange(
    address: SocketAddr,
    request: &[u8],
    times: usize,
) -> Result<usize, LoadgenError> {
    let mut connection = HttpConnection::open(address, 0).await?;
    let mut created = 0;
    for _ in 0..times {
        created += usize::from(connection.exchange(request).await?.status == 201);
    }
    Ok(created)
}
