//! Which jobs of a queue a command is about.

use clap::Args;
use tidegate::api::values::{AttributeText, FilterText, JobGroup, JobKey};
use tidegate::{JobFilter, JobState, Timestamp};

use super::choice::choice;

/// A filter for jobs of a queue: they match all flags.
#[derive(Debug, Args)]
pub(crate) struct FilterArguments {
    /// Only jobs in this state: delayed, ready, leased, dead or done.
    #[arg(long, value_parser = choice::<JobState>)]
    pub(crate) state: Option<JobState>,
    /// Only jobs whose due time, end of lease or death is not before this: 2027-01-01T00:00:00Z.
    #[arg(long)]
    pub(crate) due_from: Option<Timestamp>,
    /// Only jobs whose due time, end of lease or death is before this.
    #[arg(long)]
    pub(crate) due_before: Option<Timestamp>,
    /// Only jobs whose keys begin with this.
    #[arg(long)]
    pub(crate) key_prefix: Option<JobKey>,
    /// Only jobs of this group.
    #[arg(long)]
    pub(crate) group: Option<JobGroup>,
    /// Only jobs with this attribute.
    #[arg(long = "attr", value_name = "NAME=VALUE")]
    pub(crate) attribute: Option<AttributeText>,
    /// Only jobs whose last error contains this, with the same upper and lower case.
    #[arg(long)]
    pub(crate) error: Option<FilterText>,
}

impl From<FilterArguments> for JobFilter {
    fn from(arguments: FilterArguments) -> Self {
        Self {
            state: arguments.state,
            due_from: arguments.due_from,
            due_before: arguments.due_before,
            key_prefix: arguments.key_prefix,
            group: arguments.group,
            attribute: arguments.attribute,
            error_contains: arguments.error,
            error_digest: None,
        }
    }
}
