//! `tidegate tail`: prints the jobs of a queue when they appear, and when their states change.

use std::collections::HashSet;
use std::io;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use tidegate::api::values::{CursorText, PageSize};
use tidegate::{
    Client, CursorGuard, DurationMs, Error, JobDetails, JobFilter, JobId, JobState, QueueHandle,
};
use tidegate_core::visible_text::escape;

use crate::arguments::filter::FilterArguments;
use crate::arguments::interval::interval;
use crate::error_output;
use crate::failure::CommandFailure;
use crate::output::write_aside;
use crate::signals::stopped;

/// The most requests of a look. The next look continues there.
const PAGES: usize = 4;
/// The most entries that are remembered of each walk through the list.
const ENTRIES_MAX: usize = 100_000;

#[derive(Debug, Args)]
#[command(
    after_help = "Each line has the time (when the job is due, its lease ends, or it ended), the state, the id, the key and the last error.
A job is printed again when its state or its attempt changes. What changes twice between two looks is printed once.

A look takes up to 4 requests for up to 1000 jobs each; a longer list is walked through in several looks.

Example:
  tidegate tail emails --state dead --error smtp"
)]
pub(crate) struct TailArguments {
    /// The queue.
    queue: String,
    #[command(flatten)]
    filter: FilterArguments,
    /// Also prints the jobs that match at the start.
    #[arg(long)]
    all: bool,
    /// The pause between two looks, at least 20ms.
    #[arg(long, default_value = "1s", value_parser = interval)]
    interval: DurationMs,
}

/// The unit that is printed once: an attempt of a job in a state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct TailEntry {
    id: JobId,
    state: JobState,
    attempt: u32,
    /// Attempts that have failed or were lost.
    ended: u32,
}

impl TailEntry {
    fn of(job: &JobDetails) -> Self {
        Self {
            id: job.id,
            state: job.state,
            attempt: job.attempt,
            ended: job.failures.saturating_add(job.losses),
        }
    }
}

/// Walks through the list again and again, and knows the jobs of earlier walks.
struct ListWalks {
    queue: QueueHandle,
    filter: JobFilter,
    cursor: Option<CursorText>,
    cursors: CursorGuard,
    before: HashSet<TailEntry>,
    now: HashSet<TailEntry>,
    /// Whether the jobs of this walk are not printed.
    is_silent: bool,
    /// Jobs that are to be printed.
    found: Vec<JobDetails>,
}

/// Prints until a signal ends it, or the reader of a pipe is gone.
///
/// # Errors
/// The first look fails; a later one fails for another reason than a server that is unavailable for a while; too many
/// jobs match.
pub(crate) async fn tail(
    client: &Client,
    arguments: TailArguments,
    as_json: bool,
) -> Result<(), CommandFailure> {
    let mut stopped = pin!(stopped()?);
    let mut walks = ListWalks {
        queue: client.queue(&arguments.queue)?,
        filter: arguments.filter.into(),
        cursor: None,
        cursors: CursorGuard::default(),
        before: HashSet::new(),
        now: HashSet::new(),
        is_silent: !arguments.all,
        found: Vec::new(),
    };
    let interval: Duration = arguments.interval.into();
    let mut is_first = true;
    loop {
        let look = tokio::select! {
            look = walks.look() => look,
            () = &mut stopped => return Ok(()),
        };
        // Jobs that a look has found before it failed are not found again.
        let found = std::mem::take(&mut walks.found);
        let printed = tokio::select! {
            printed = print(&found, as_json) => printed,
            () = &mut stopped => return Ok(()),
        };
        match printed {
            Err(CommandFailure::OutputClosed) => return Ok(()),
            printed => printed?,
        }
        match look {
            Ok(()) => {}
            Err(CommandFailure::Request(error)) if error.is_temporary() && !is_first => {
                error_output::write_line(&format!("{error}; retrying"));
            }
            Err(error) => return Err(error),
        }
        is_first = false;
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = &mut stopped => return Ok(()),
        }
    }
}

impl ListWalks {
    /// Reads up to [`PAGES`] pages, and keeps the jobs that no walk has found before.
    async fn look(&mut self) -> Result<(), CommandFailure> {
        for _ in 0..PAGES {
            let cursor = self.cursor.as_ref();
            let page = self.queue.jobs_page(&self.filter, cursor, PageSize::MAX);
            let page = page.await?;
            for job in page.items {
                let entry = TailEntry::of(&job);
                let is_known = self.before.contains(&entry);
                if self.now.insert(entry) && !is_known && !self.is_silent {
                    self.found.push(job);
                }
            }
            if self.now.len() > ENTRIES_MAX {
                let text = format!("more than {ENTRIES_MAX} jobs match; narrow the flags");
                return Err(CommandFailure::NotDone(text));
            }
            self.cursor = page.next;
            if let Some(cursor) = &self.cursor {
                self.cursors.check(cursor)?;
            } else {
                self.cursors = CursorGuard::default();
                self.before = std::mem::take(&mut self.now);
                self.is_silent = false;
                break;
            }
        }
        Ok(())
    }
}

async fn print(jobs: &[JobDetails], as_json: bool) -> Result<(), CommandFailure> {
    let mut text = String::new();
    for job in jobs {
        text += &match as_json {
            true => escape(&serde_json::to_string(job).map_err(Error::Encode)?).into_owned(),
            false => line(job),
        };
        text.push('\n');
    }
    write_aside(text).await.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => CommandFailure::OutputClosed,
        _ => CommandFailure::NotDone(format!("failed to write the standard output: {error}")),
    })
}

fn line(job: &JobDetails) -> String {
    let last = job.history.last();
    let ended = last.map(|entry| entry.ended_at);
    let time = job.lease_until.or(job.run_at).or(ended);
    let time = time.unwrap_or(job.created_at);
    let state = job.state.as_str();
    let key = job.key.as_ref().map_or("-", |key| key.as_str());
    let error = last.and_then(|entry| entry.error.as_ref());
    let error = error.map_or_else(String::new, |error| escape(error.as_str()).into_owned());
    let line = format!("{time}  {state:<7}  {}  {}  {error}", job.id, escape(key));
    line.trim_end().to_owned()
}
