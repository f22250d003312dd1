//! How many files and sockets this process may have open at a time, and how many a listener needs.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::ListenLimits;
use crate::places::refused_max;

/// Takes as many as the system lets this process have. Unless asked it gives fewer, 1024 as a rule, for the
/// sake of programs that use `select`.
///
/// # Errors
/// The system refuses; the limit is unchanged.
pub fn raise_open_files() -> io::Result<()> {
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
#[must_use]
pub fn open_files_max() -> Option<u64> {
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
    #[must_use]
    pub fn within(&self, files: u64) -> Option<Self> {
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
