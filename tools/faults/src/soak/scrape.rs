//! Scrapes of all metrics, as a Prometheus would make them.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_testkit::{Answer, RawHttp};

const LIMIT: Duration = Duration::from_secs(10);
const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
const CONNECTIONS: &str = "tidegate_http_connections{listener=\"public\"}";

/// Results of the scrapes so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScrapeCounts {
    /// Scrapes that were answered.
    pub done: u64,
    /// Scrapes without an answer, such as scrapes of a process that restarts.
    pub failed: u64,
    pub longest: Duration,
    /// Bytes of the largest answer.
    pub bytes_max: usize,
    /// Open client connections of all APIs, at the last scrape of each.
    pub(super) connections: Vec<f64>,
}

/// Scrapes these admin ports until the future is dropped.
pub(super) async fn scrape(
    addresses: &[SocketAddr],
    interval: Duration,
    counts: &Mutex<ScrapeCounts>,
) {
    let mut ticks = tokio::time::interval(interval);
    loop {
        ticks.tick().await;
        for (number, address) in addresses.iter().enumerate() {
            let begin = Instant::now();
            let answer = tokio::time::timeout(LIMIT, scrape_one(*address)).await;
            let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            counts.connections.resize(addresses.len(), 0.0);
            match answer {
                Ok(Some(answer)) if answer.status == 200 => {
                    counts.done += 1;
                    counts.longest = counts.longest.max(begin.elapsed());
                    counts.bytes_max = counts.bytes_max.max(answer.body.len());
                    counts.connections[number] = value(&answer.body, CONNECTIONS);
                }
                _ => {
                    counts.failed += 1;
                    counts.connections[number] = 0.0;
                }
            }
        }
    }
}

async fn scrape_one(address: SocketAddr) -> Option<Answer> {
    let mut connection = RawHttp::try_connect(address).await.ok()?;
    match connection.send(REQUEST).await {
        true => connection.answer().await,
        false => None,
    }
}

/// The value of a series; 0 if there is none.
fn value(metrics: &[u8], series: &str) -> f64 {
    let text = String::from_utf8_lossy(metrics);
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    line.and_then(|value| value.trim().parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_a_series_is_found() {
        let text = b"# HELP x\ntidegate_http_connections{listener=\"admin\"} 1\ntidegate_http_connections{listener=\"public\"} 42\n";
        assert_eq!(value(text, CONNECTIONS), 42.0);
        assert_eq!(value(b"", CONNECTIONS), 0.0);
    }
}
