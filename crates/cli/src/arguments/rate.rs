//! Rates, and limits that queues share.

use clap::Subcommand;
use tidegate::{DurationMs, Rate};

#[derive(Debug, Subcommand)]
pub(crate) enum LimitCommand {
    /// Lists the limits of the namespace.
    Ls,
    /// Shows a limit.
    Show {
        /// The limit.
        name: String,
    },
    /// Creates a limit, or replaces it. Needs the scope admin.
    Set {
        /// The limit.
        name: String,
        /// The number of jobs and the time: 100/1s, 10/1m.
        #[arg(value_parser = rate)]
        rate: Rate,
    },
    /// Deletes a limit that the policy of no queue names.
    #[command(visible_alias = "delete")]
    Rm {
        /// The limit.
        name: String,
    },
}

/// Reads a rate such as `100/1s`. The server checks the bounds.
pub(crate) fn rate(text: &str) -> Result<Rate, String> {
    let read = || {
        let (jobs, per) = text.split_once('/')?;
        let per: DurationMs = per.parse().ok()?;
        Some(Rate {
            jobs: jobs.parse().ok()?,
            per_ms: per.as_ms(),
        })
    };
    read().ok_or_else(|| "write jobs and a time, such as 100/1s or 10/1m".to_owned())
}
