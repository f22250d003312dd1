//! The limit of open files and sockets of this process, and how many a listener needs. Client connections are
//! limited so that enough files are left for everything else.
//!
//! ```text
//!  connections_max, and a fiftieth that is refused │ other files of the daemon
//! ```

use std::io;

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::connection_permits::rejected_max;
use crate::listen_limits::ListenLimits;

/// Files that any daemon needs: runtime, logs, signals, settings files, resolver.
pub const OPEN_FILES_OF_A_PROCESS: u64 = 64;

/// The limit of open files leaves none for clients.
#[derive(Debug, thiserror::Error)]
#[error(
    "the limit of open files is {files_max}, which leaves none for clients: set it to {needed} (LimitNOFILE, ulimit -Hn) for {connections_max} connections on the {listener} port"
)]
pub struct OpenFileLimitError {
    files_max: u64,
    needed: u64,
    connections_max: usize,
    listener: &'static str,
}

/// The open files that a listener and the rest of the process need.
#[derive(Debug)]
pub struct OpenFileBudget<'a> {
    /// Name of the listener in messages.
    pub listener: &'static str,
    /// Its limits, as configured.
    pub limits: &'a ListenLimits,
    /// Largest number of files that everything else has open.
    pub others: u64,
}

impl OpenFileBudget<'_> {
    /// Number of files for all connections of the listener, and for everything else.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.limits.open_files() + self.others
    }

    /// Raises the soft limit of open files to the hard limit. Returns the limits of the listener, with fewer
    /// connections than configured if there are too few files for all.
    ///
    /// # Errors
    /// There are too few files for a single client.
    pub fn raise_limit(&self) -> Result<ListenLimits, OpenFileLimitError> {
        if let Err(error) = raise_open_files() {
            tracing::warn!(%error, "failed to raise the limit of open files");
        }
        let files_max = open_files_max().unwrap_or(u64::MAX);
        let limits = self.limits_within(files_max)?;
        if limits.connections_max < self.limits.connections_max {
            tracing::warn!(
                listener = self.listener,
                files_max,
                connections_max = limits.connections_max,
                configured = self.limits.connections_max,
                "connections_max is lowered: the limit of open files is too low; set it (LimitNOFILE, ulimit -Hn) to {}",
                self.total()
            );
        }
        Ok(limits)
    }

    /// Returns the limits of the listener if the process may open `files_max` files.
    ///
    /// # Errors
    /// There are too few files for a single client.
    pub fn limits_within(&self, files_max: u64) -> Result<ListenLimits, OpenFileLimitError> {
        let for_clients = files_max.saturating_sub(self.others);
        self.limits
            .with_open_files(for_clients)
            .ok_or(OpenFileLimitError {
                files_max,
                needed: self.total(),
                connections_max: self.limits.connections_max,
                listener: self.listener,
            })
    }
}

/// Raises the soft limit to the hard limit. The default soft limit is low, usually 1024, for programs that
/// use `select`.
fn raise_open_files() -> io::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// Current limit of open files; `None` = unlimited.
fn open_files_max() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

impl ListenLimits {
    /// Largest number of files that a listener with these limits has open: its socket, the connections that
    /// it serves, and connections that it answers with 503.
    #[must_use]
    pub fn open_files(&self) -> u64 {
        (1 + self.connections_max + rejected_max(self.connections_max)) as u64
    }

    /// Returns these limits with as many connections as `files` allows, at most `connections_max`; `None` if
    /// it allows none.
    fn with_open_files(&self, files: u64) -> Option<Self> {
        let files = usize::try_from(files).unwrap_or(usize::MAX);
        let connections = files.checked_sub(1)?;
        // Subtracts at least the number of connections that are answered 503 at a time.
        let connections = connections.checked_sub(rejected_max(connections))?;
        let connections_max = self.connections_max.min(connections);
        (connections_max > 0).then(|| Self {
            connections_max,
            ..self.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::Rlimit;

    use super::*;

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_limit() {
        let before = getrlimit(Resource::Nofile);
        let few = Rlimit {
            current: Some(512),
            ..before
        };
        setrlimit(Resource::Nofile, few).unwrap();
        assert_eq!(open_files_max(), Some(512));
        raise_open_files().unwrap();
        assert_eq!(open_files_max(), before.maximum);
    }

    #[test]
    fn a_listener_gets_no_more_connections_than_there_are_files_for() {
        let wanted = |connections_max| ListenLimits {
            connections_max,
            ..ListenLimits::default()
        };
        assert_eq!(wanted(50_000).open_files(), 51_001);
        for files in [18, 19, 100, 817, 818, 5_000, 51_000] {
            let fitting = wanted(50_000).with_open_files(files).unwrap();
            assert!(fitting.open_files() <= files, "{files}");
            assert!(fitting.connections_max < 50_000, "{files}");
            // At most a fiftieth of a fiftieth stays unused.
            let unused = files - fitting.open_files();
            assert!(unused <= 1 + files / 2_500, "{files}: {unused}");
        }
        assert_eq!(wanted(3).with_open_files(100).unwrap().connections_max, 3);
        for files in [0, 1, 17] {
            assert!(wanted(50_000).with_open_files(files).is_none(), "{files}");
        }
    }
}
