//! Why a command ends early.

/// Why a command ends early.
#[derive(Debug)]
pub enum CommandError {
    /// The user requested it: Ctrl-C, SIGTERM or SIGHUP.
    Interrupted,
    /// An error.
    Failed(String),
}

impl From<String> for CommandError {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}
