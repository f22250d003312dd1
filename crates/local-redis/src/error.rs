//! Why there is no server.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a server could not be found, obtained or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program named by `TIDEGATE_REDIS_SERVER` (or given by path) cannot be used.
    #[error("{} cannot be used: {reason}", path.display())]
    Unusable {
        /// The program.
        path: PathBuf,
        /// What is wrong with it, in one line.
        reason: String,
    },
    /// No route led to a server. The text lists every route with its reason and ends with the command to run.
    #[error("no {wanted} is available\n{}\n{advice}", lines(tried))]
    NotObtained {
        /// What was looked for, such as "Redis 7 or newer".
        wanted: String,
        /// The routes, in the order in which they were tried.
        tried: Vec<Tried>,
        /// What the reader can do now.
        advice: String,
    },
    /// Another server works in this data folder.
    #[error("the Redis data folder {} is in use{}", folder.display(), by(*pid))]
    FolderInUse {
        /// The data folder.
        folder: PathBuf,
        /// The process that uses it, where it is known.
        pid: Option<u32>,
    },
    /// The server did not come up, or ended while it was waited for.
    #[error("{program} did not start on port {port}: {reason}\nlast lines of {}:\n{log}", log_path.display())]
    NotStarted {
        /// The server program.
        program: PathBuf,
        /// The port it was told to listen on.
        port: u16,
        /// What happened, in one line.
        reason: String,
        /// The server's log file.
        log_path: PathBuf,
        /// The last lines of that file.
        log: String,
    },
    /// The operating system refused something.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// The refusal.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}

/// A route to a server that led nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// The route, such as "PATH".
    pub route: String,
    /// Why it failed, in one line.
    pub reason: String,
}

impl Tried {
    pub(crate) fn new(route: &str, reason: &str) -> Self {
        let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
        Self {
            route: route.to_owned(),
            reason,
        }
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.route, self.reason)
    }
}

fn lines(tried: &[Tried]) -> String {
    tried
        .iter()
        .map(|one| format!("  - {one}"))
        .collect::<Vec<_>>()
        .join("\n")
}

fn by(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" by process {pid}"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_every_route_and_ends_with_the_advice() {
        let error = Error::NotObtained {
            wanted: "Redis 7 or newer".to_owned(),
            tried: vec![
                Tried::new("PATH", "no redis-server"),
                Tried::new("wheel", "two\n  lines"),
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
        let known = Error::FolderInUse {
            folder: folder.clone(),
            pid: Some(12),
        };
        assert_eq!(
            known.to_string(),
            "the Redis data folder data is in use by process 12"
        );
        let unknown = Error::FolderInUse { folder, pid: None };
        assert_eq!(unknown.to_string(), "the Redis data folder data is in use");
    }
}
