//! Schedules.

use clap::{ArgGroup, Args, Subcommand};
use tidegate::api::values::RunCount;
use tidegate::{CatchUp, DurationMs, Overlap, Timestamp};

use super::choice::choice;
use super::publish::ContentArguments;

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Lists the schedules of the namespace with their next runs.
    Ls,
    /// Shows a schedule and its next runs.
    Show {
        /// The schedule.
        name: String,
        /// The number of next runs to show, 1 to 100.
        #[arg(long, default_value = "5", value_parser = run_count)]
        runs: RunCount,
    },
    /// Creates a schedule, or replaces it as a whole. Needs the scope admin.
    Set(Box<SetArguments>),
    /// Stops a schedule. Runs of the pause are not caught up.
    Pause {
        /// The schedule.
        name: String,
    },
    /// Continues a schedule with its next run.
    Resume {
        /// The schedule.
        name: String,
    },
    /// Deletes a schedule. Jobs that it has published stay.
    #[command(visible_alias = "delete")]
    Rm {
        /// The schedule.
        name: String,
        #[command(flatten)]
        seen: SeenArguments,
    },
}

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("times").required(true).args(["cron", "every"]),
    after_help = "This command sets the schedule as a whole: a flag that is left out has its default.
The queue of a schedule cannot be changed: delete the schedule, and set it again.

A cron pattern has five fields (minute, hour, day of the month, month, day of the week), or six that begin with the seconds.

Examples:
  tidegate schedule set digest mails '{\"kind\":\"digest\"}' --cron '0 9 * * MON-FRI' --time-zone Europe/Berlin
  tidegate schedule set poll feeds '{}' --every 15m --overlap allow"
)]
pub(crate) struct SetArguments {
    /// The schedule.
    pub(crate) name: String,
    /// The queue of its jobs.
    pub(crate) queue: String,
    #[command(flatten)]
    pub(crate) content: ContentArguments,
    /// Runs at the times of a cron pattern, such as '0 9 * * MON-FRI'.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) cron: Option<String>,
    /// The time zone of the pattern, such as Europe/Berlin. Default: UTC.
    #[arg(long, value_name = "NAME", conflicts_with = "every")]
    pub(crate) time_zone: Option<String>,
    /// Runs at multiples of this time since --starts-at, or since 1970: 30s, 15m, 1d. At least 100ms.
    #[arg(long, value_name = "TIME")]
    pub(crate) every: Option<DurationMs>,
    /// The delay of the job after its run.
    #[arg(long)]
    pub(crate) delay: Option<DurationMs>,
    /// If the job of an earlier run is not done: keep (no other job), replace, or allow (two jobs).
    #[arg(long, default_value = "keep", value_parser = choice::<Overlap>)]
    pub(crate) overlap: Overlap,
    /// The missed runs that are caught up after a time without a pump: one (the last run), none or all.
    #[arg(long, default_value = "one", value_parser = choice::<CatchUp>)]
    pub(crate) catch_up: CatchUp,
    /// No run is caught up later than this, at least 1s.
    #[arg(long, value_name = "TIME")]
    pub(crate) catch_up_window: Option<DurationMs>,
    /// No run is before this: 2027-01-01T00:00:00Z.
    #[arg(long)]
    pub(crate) starts_at: Option<Timestamp>,
    /// No run is after this.
    #[arg(long)]
    pub(crate) ends_at: Option<Timestamp>,
    /// Creates the schedule without runs; tidegate schedule resume starts it.
    #[arg(long)]
    pub(crate) paused: bool,
    /// Only creates: fails if there is a schedule with this name.
    #[arg(long, conflicts_with = "revision")]
    pub(crate) new: bool,
    #[command(flatten)]
    pub(crate) seen: SeenArguments,
}

/// The revision that the caller has seen of a schedule that it changes.
#[derive(Debug, Args)]
pub(crate) struct SeenArguments {
    /// Only if the schedule has this revision, as show prints it.
    #[arg(long, value_parser = revision)]
    pub(crate) revision: Option<String>,
}

fn run_count(text: &str) -> Result<RunCount, String> {
    let number: u64 = text.parse().map_err(|_| "write a whole number")?;
    RunCount::try_from(number).map_err(|invalid| invalid.detail)
}

fn revision(text: &str) -> Result<String, String> {
    let is_revision = text.split_once('.').is_some_and(|(number, tag)| {
        let digits =
            |part: &str, radix| !part.is_empty() && part.chars().all(|it| it.is_digit(radix));
        digits(number, 10) && digits(tag, 16)
    });
    match is_revision {
        true => Ok(text.to_owned()),
        false => Err(
            "write the revision as tidegate schedule show prints it, such as 3.9f3a61c2".to_owned(),
        ),
    }
}
