//! How many files and sockets this process may have open at a time, and how many a listener needs. Connections of
//! clients are limited so that files are left for everything else.
//!
//! ```text
//!  connections_max, and a fiftieth that is refused │ what else the daemon has open
//! ```

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::ListenLimits;
use crate::places::refused_max;

/// Files of any process: the runtime, logs, signals, settings that are read, the resolver.
pub const OPEN_FILES_OF_A_PROCESS: u64 = 64;

/// Fewer files than the daemon can work with.
#[derive(Debug, thiserror::Error)]
#[error(
    "the limit of open files is {files_max}, which leaves none for clients: set it to {needed} (LimitNOFILE, ulimit -Hn) for {connections_max} connections on the {listener} port"
)]
pub struct TooFewFiles {
    files_max: u64,
    needed: u64,
    connections_max: usize,
    listener: &'static str,
}

/// A listener, and the files that its clients cannot use.
#[derive(Debug)]
pub struct FilesNeeded<'a> {
    /// Which listener, for messages.
    pub listener: &'static str,
    /// Its limits, as configured.
    pub limits: &'a ListenLimits,
    /// The most files that everything else has open.
    pub others: u64,
}

impl FilesNeeded<'_> {
    /// The files for all connections that the listener may have, and for everything else.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.limits.open_files() + self.others
    }

    /// Raises the limit of open files as far as the system permits. Returns the limits of the listener: if there
    /// are too few files, with fewer connections than configured.
    ///
    /// # Errors
    /// There are too few files for a single client.
    pub fn obtain(&self) -> Result<ListenLimits, TooFewFiles> {
        if let Err(error) = raise_open_files() {
            tracing::warn!(%error, "failed to raise the limit of open files");
        }
        let files_max = open_files_max().unwrap_or(u64::MAX);
        let limits = self.within(files_max)?;
        if limits.connections_max < self.limits.connections_max {
            tracing::warn!(
                listener = self.listener,
                files_max,
                connections_max = limits.connections_max,
                configured = self.limits.connections_max,
                "connections_max is lowered: the limit of open files is too low; set it (LimitNOFILE, ulimit -Hn) to {}",
                self.all()
            );
        }
        Ok(limits)
    }

    /// The limits of the listener with so many files.
    ///
    /// # Errors
    /// There are too few files for a single client.
    pub fn within(&self, files_max: u64) -> Result<ListenLimits, TooFewFiles> {
        let for_clients = files_max.saturating_sub(self.others);
        self.limits.within(for_clients).ok_or(TooFewFiles {
            files_max,
            needed: self.all(),
            connections_max: self.limits.connections_max,
            listener: self.listener,
        })
    }
}

/// Takes as many as the system lets this process have. Unless asked it gives fewer, 1024 as a rule, for the
/// sake of programs that use `select`.
fn raise_open_files() -> io::Result<()> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        let raised = Rlimit {
            current: maximum,
            maximum,
        };
        setrlimit(Resource::Nofile, raised)?;
    }
    Ok(())
}

/// How many files this process may have open now; `None` = without bound.
fn open_files_max() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

impl ListenLimits {
    /// The most files that a listener with these limits has open: its socket, the connections that it serves,
    /// and those that it refuses.
    #[must_use]
    pub fn open_files(&self) -> u64 {
        (1 + self.connections_max + refused_max(self.connections_max)) as u64
    }

    /// The same limits with as many connections as these files suffice for, at most `connections_max`; `None`
    /// if they do not suffice for one.
    fn within(&self, files: u64) -> Option<Self> {
        let files = usize::try_from(files).unwrap_or(usize::MAX);
        let connections = files.checked_sub(1)?;
        // There are no more refused ones than for that many.
        let connections = connections.checked_sub(refused_max(connections))?;
        let connections_max = self.connections_max.min(connections);
        (connections_max > 0).then(|| Self {
            connections_max,
            ..self.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_may_be_had_is_taken() {
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
            let fitting = wanted(50_000).within(files).unwrap();
            assert!(fitting.open_files() <= files, "{files}");
            assert!(fitting.connections_max < 50_000, "{files}");
            // No more than a fiftieth of a fiftieth is given away.
            let unused = files - fitting.open_files();
            assert!(unused <= 1 + files / 2_500, "{files}: {unused}");
        }
        assert_eq!(wanted(3).within(100).unwrap().connections_max, 3);
        for files in [0, 1, 17] {
            assert!(wanted(50_000).within(files).is_none(), "{files}");
        }
    }
}
