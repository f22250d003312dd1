//! When requests are sent: as fast as answers come (closed loop), or at their time (open loop).

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Hands out the beginnings of requests to any number of connections.
#[derive(Debug)]
pub(crate) struct Pace {
    begin: Instant,
    length: Duration,
    /// Requests a second; 0 = as fast as answers come.
    rate: f64,
    sent: Cell<u64>,
}

impl Pace {
    /// For so long, at this rate; 0 = closed loop.
    pub(crate) fn new(length: Duration, rate: f64) -> Self {
        Self {
            begin: Instant::now(),
            length,
            rate,
            sent: Cell::new(0),
        }
    }

    /// The next request's beginning, which its latency counts from; `None` when time is up. In an open
    /// loop that is the moment it was meant to be sent, however late a connection is free for it: waiting for
    /// an answer does not excuse requests that should have been sent meanwhile. The timer's own error, up to
    /// 1 ms, counts too.
    pub(crate) async fn next(&self) -> Option<Instant> {
        let number = self.sent.get();
        let begin = if self.rate > 0.0 {
            self.begin + Duration::from_secs_f64(number as f64 / self.rate)
        } else {
            Instant::now()
        };
        if begin >= self.begin + self.length {
            return None;
        }
        self.sent.set(number + 1);
        if self.rate > 0.0 && begin > Instant::now() {
            tokio::time::sleep_until(begin.into()).await;
        }
        Some(begin)
    }

    /// How it is told.
    pub(crate) fn shown(rate: f64, connections: usize) -> String {
        if rate > 0.0 {
            format!("open loop, {rate}/s over {connections} connections")
        } else {
            format!("closed loop, {connections} connections")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_open_loop_counts_from_the_intended_moment() {
        let pace = Pace::new(Duration::from_millis(30), 100.0);
        let mut begins = Vec::new();
        while let Some(begin) = pace.next().await {
            begins.push(begin - pace.begin);
        }
        let ms = [0, 10, 20].map(Duration::from_millis);
        assert_eq!(begins, ms);
    }

    #[tokio::test]
    async fn a_closed_loop_ends_with_its_time() {
        let pace = Pace::new(Duration::from_millis(5), 0.0);
        while pace.next().await.is_some() {}
        assert!(pace.begin.elapsed() >= Duration::from_millis(5));
    }
}
