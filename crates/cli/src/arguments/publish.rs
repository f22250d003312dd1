//! A job that is published.

use std::path::PathBuf;

use clap::Args;
use tidegate::api::values::{JobGroup, Priority};
use tidegate::{DurationMs, IfExists, Timestamp};

use super::choice::choice;
use super::job::priority;

#[derive(Debug, Args)]
pub(crate) struct PublishArguments {
    /// The queue.
    pub(crate) queue: String,
    #[command(flatten)]
    pub(crate) content: ContentArguments,
    /// When the job is due, from now on: 500ms, 30m, 2h.
    #[arg(long)]
    pub(crate) delay: Option<DurationMs>,
    /// When the job is due: 2027-01-01T00:00:00Z.
    #[arg(long, conflicts_with = "delay")]
    pub(crate) run_at: Option<Timestamp>,
    /// A name of the job that is unique in its queue.
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// If a job has the key: keep, replace or reject.
    #[arg(long, value_parser = choice::<IfExists>, requires = "key")]
    pub(crate) if_exists: Option<IfExists>,
}

/// The content of a job, and its options that do not depend on when it is published.
#[derive(Debug, Args)]
pub(crate) struct ContentArguments {
    /// The payload. Default: the standard input.
    #[arg(conflicts_with = "file")]
    pub(crate) payload: Option<String>,
    /// Reads the payload from a file.
    #[arg(long)]
    pub(crate) file: Option<PathBuf>,
    /// The content type of the payload.
    #[arg(long, default_value = "application/json")]
    pub(crate) content_type: String,
    /// The time for which the finished job stays with its result.
    #[arg(long)]
    pub(crate) retain: Option<DurationMs>,
    /// The number of failures after which the job is dead.
    #[arg(long)]
    pub(crate) max_attempts: Option<u16>,
    /// How early the job is delivered among the ready jobs of its queue, 0 to 4: 4 is first. Default: 0.
    #[arg(long, value_parser = priority)]
    pub(crate) priority: Option<Priority>,
    /// The group of the job, such as its tenant: groups take turns.
    #[arg(long)]
    pub(crate) group: Option<JobGroup>,
    /// An attribute of the job. May be repeated.
    #[arg(long = "attr", value_name = "NAME=VALUE", value_parser = attribute)]
    pub(crate) attributes: Vec<(String, String)>,
}

fn attribute(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("write the attribute as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
