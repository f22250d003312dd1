//! Errors of finding, obtaining and running a server.

use std::io;
use std::path::PathBuf;

use tidegate_local_program::{FailedSource, failure_lines};

/// A server could not be found, obtained or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalRedisError {
    /// The program named by `TG_REDIS_SERVER` (or given by path) cannot be used.
    #[error("{} cannot be used: {reason}", path.display())]
    Unusable {
        /// The program.
        path: PathBuf,
        /// The reason, in one line.
        reason: String,
    },
    /// No source has a server. The message lists every source with its reason, and ends with the command to
    /// run.
    #[error("no {wanted} is available\n{}\n{advice}", failure_lines(tried))]
    NotObtained {
        /// The required server, such as "Redis 7.0 or newer".
        wanted: String,
        /// The sources, in the order in which they were tried.
        tried: Vec<FailedSource>,
        /// The remedy: a command to run.
        advice: String,
    },
    /// Another server uses this data folder.
    #[error("the Redis data folder {} is in use{}", folder.display(), process_suffix(*pid))]
    FolderInUse {
        /// The data folder.
        folder: PathBuf,
        /// The process that uses it, if known.
        pid: Option<u32>,
    },
    /// The server was not ready in time, or ended during its start.
    #[error("{program} did not start on port {port}: {reason}\nlast lines of {}:\n{log}", log_path.display())]
    NotStarted {
        /// The server program.
        program: PathBuf,
        /// The port that it should listen on.
        port: u16,
        /// The reason, in one line.
        reason: String,
        /// The server's log file.
        log_path: PathBuf,
        /// The last lines of that file.
        log: String,
    },
    /// A system call failed.
    #[error("{doing}: {source}")]
    Io {
        /// The operation, such as `opening FILE`.
        doing: String,
        /// The error of the system.
        source: io::Error,
    },
}

impl LocalRedisError {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}

fn process_suffix(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" by process {pid}"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_every_source_and_ends_with_the_advice() {
        let error = LocalRedisError::NotObtained {
            wanted: "Redis 7 or newer".to_owned(),
            tried: vec![
                FailedSource::new("PATH", "no redis-server"),
                FailedSource::new("wheel", "two\n  lines"),
            ],
            advice: "run: brew install redis".to_owned(),
        };
        assert_eq!(
            error.to_string(),
            "no Redis 7 or newer is available\n  - PATH: no redis-server\n  - wheel: two lines\nrun: brew install redis"
        );
    }

    #[test]
    fn a_folder_in_use_names_the_process_where_it_is_known() {
        let folder = PathBuf::from("data");
        let known = LocalRedisError::FolderInUse {
            folder: folder.clone(),
            pid: Some(12),
        };
        assert_eq!(
            known.to_string(),
            "the Redis data folder data is in use by process 12"
        );
        let unknown = LocalRedisError::FolderInUse { folder, pid: None };
        assert_eq!(unknown.to_string(), "the Redis data folder data is in use");
    }
}
