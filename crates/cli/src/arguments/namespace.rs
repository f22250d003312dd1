//! Limits of namespaces.

use clap::{Args, Subcommand};

use super::admin_port::AdminPortArguments;

#[derive(Debug, Args)]
#[command(
    after_help = "Limits: queues, policies, limits, schedules, relays, api_keys, jobs, publishes_per_second, waiting_consumers.
The password of --admin-user is taken from TG_ADMIN_PASSWORD.

Example:
  tidegate namespace set shop jobs=1000000 publishes_per_second=500
  tidegate namespace show shop"
)]
pub(crate) struct NamespaceArguments {
    #[command(flatten)]
    pub(crate) port: AdminPortArguments,
    #[command(subcommand)]
    pub(crate) command: NamespaceCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NamespaceCommand {
    /// Lists the namespaces with a quota, and the limits of the others.
    #[command(name = "ls")]
    List,
    /// Shows the limits of a namespace, and how much of them it uses.
    Show {
        /// The namespace.
        name: String,
    },
    /// Creates the quota of a namespace, or replaces it. Limits that it does not name have their defaults.
    Set {
        /// The namespace.
        name: String,
        /// A limit and its value: jobs=1000000.
        #[arg(required = true, value_name = "LIMIT=NUMBER", value_parser = limit)]
        limits: Vec<(String, u64)>,
    },
    /// Deletes the quota of a namespace: it has the defaults again.
    #[command(name = "rm", visible_alias = "delete")]
    Delete {
        /// The namespace.
        name: String,
    },
}

/// Reads a limit such as `jobs=1000`. The server checks the name and the bounds.
fn limit(text: &str) -> Result<(String, u64), String> {
    let read = || {
        let (name, value) = text.split_once('=')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    read().ok_or_else(|| "write a limit and a number, such as jobs=1000000".to_owned())
}
