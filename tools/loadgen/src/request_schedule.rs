//! Send times of requests: as fast as answers arrive (closed loop), or at a fixed rate (open loop).

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Schedules the requests of any number of connections.
#[derive(Debug)]
pub(crate) struct RequestSchedule {
    begin: Instant,
    length: Duration,
    /// Requests per second; 0 = closed loop.
    rate: f64,
    sent: Cell<u64>,
}

impl RequestSchedule {
    /// Creates a pace of `length` at `rate` requests per second; 0 = closed loop.
    pub(crate) fn new(length: Duration, rate: f64) -> Self {
        Self {
            begin: Instant::now(),
            length,
            rate,
            sent: Cell::new(0),
        }
    }

    /// Waits for the next request's start time, from which its latency counts; `None` when time is up. In an
    /// open loop that is the scheduled time, however late a connection is free for it. Otherwise a slow
    /// answer would hide the latency of the requests that should have been sent meanwhile. The error of the
    /// timer, up to 1 ms, is included.
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

    /// Describes a pace in a report.
    pub(crate) fn describe(rate: f64, connections: usize) -> String {
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
    async fn an_open_loop_counts_from_the_scheduled_time() {
        let pace = RequestSchedule::new(Duration::from_millis(30), 100.0);
        let mut begins = Vec::new();
        while let Some(begin) = pace.next().await {
            begins.push(begin - pace.begin);
        }
        let ms = [0, 10, 20].map(Duration::from_millis);
        assert_eq!(begins, ms);
    }

    #[tokio::test]
    async fn a_closed_loop_ends_when_time_is_up() {
        let pace = RequestSchedule::new(Duration::from_millis(5), 0.0);
        while pace.next().await.is_some() {}
        assert!(pace.begin.elapsed() >= Duration::from_millis(5));
    }
}
