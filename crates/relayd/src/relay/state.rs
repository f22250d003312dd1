//! The state that a relay shows.

use std::time::Duration;

use parking_lot::Mutex;
use tidegate::api::relay::{LastRelayError, RelayHealth, RelayStatus};
use tidegate_daemon::LogLimit;
use tidegate_daemon::traces::wall_clock;

use crate::circuit_breaker::CircuitBreaker;
use crate::relay_metrics::RelayMetrics;

/// A sink may reject each of thousands of jobs.
const DEAD_WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// How the last calls of a relay ended.
#[derive(Debug)]
struct LastCalls {
    source_fails: bool,
    sink_fails: bool,
    status: RelayStatus,
}

impl LastCalls {
    fn set_error(&mut self, text: &str) {
        self.status.last_error = Some(LastRelayError {
            text: text.into(),
            at: wall_clock().into(),
        });
    }

    fn update_state(&mut self) {
        let state = match self.source_fails || self.sink_fails {
            true => RelayHealth::Failing,
            false => RelayHealth::Running,
        };
        if state != std::mem::replace(&mut self.status.state, state) {
            self.status.since = Some(wall_clock().into());
        }
    }
}

/// State and counts of a relay.
#[derive(Debug)]
pub(crate) struct RelayState {
    pub(crate) name: String,
    /// Its source, without secrets.
    pub(crate) source: String,
    /// Its sink, without secrets.
    pub(crate) sink: String,
    pub(crate) breaker: CircuitBreaker,
    pub(crate) metrics: RelayMetrics,
    calls: Mutex<LastCalls>,
    /// Warnings of jobs that are dead because the sink will never take them.
    pub(crate) dead_warnings: LogLimit,
}

impl RelayState {
    pub(crate) fn new(name: &str, source: String, sink: String, breaker: CircuitBreaker) -> Self {
        Self {
            name: name.to_owned(),
            source,
            sink,
            breaker,
            metrics: RelayMetrics::new(name),
            calls: Mutex::new(LastCalls {
                source_fails: false,
                sink_fails: false,
                status: RelayStatus {
                    state: RelayHealth::Running,
                    since: Some(wall_clock().into()),
                    last_error: None,
                },
            }),
            dead_warnings: LogLimit::every(DEAD_WARNING_INTERVAL),
        }
    }

    /// An error that says nothing about the next calls.
    pub(crate) fn set_error(&self, text: &str) {
        self.calls.lock().set_error(text);
    }

    /// The call that reserves jobs failed. Returns whether the one before did not.
    pub(crate) fn source_failed(&self, text: &str) -> bool {
        let mut calls = self.calls.lock();
        calls.set_error(text);
        let before = std::mem::replace(&mut calls.source_fails, true);
        calls.update_state();
        !before
    }

    /// The call that reserves jobs succeeded. Returns whether the one before failed.
    pub(crate) fn source_answered(&self) -> bool {
        let mut calls = self.calls.lock();
        let before = std::mem::replace(&mut calls.source_fails, false);
        calls.update_state();
        before
    }

    /// A call to the sink has ended: with an error of a job, and whether the sink took none.
    pub(crate) fn sink_called(&self, error: Option<&str>, took_none: bool) {
        let mut calls = self.calls.lock();
        if let Some(error) = error {
            calls.set_error(error);
        }
        calls.sink_fails = took_none;
        calls.update_state();
    }

    /// Whether its calls succeed, since when, and the last error.
    pub(crate) fn status(&self) -> RelayStatus {
        self.calls.lock().status.clone()
    }
}
