//! What a run tells people: a table, a picture, and everything as a file.

mod facts;
mod file;
mod picture;
mod summary;
mod table;

use std::io;
use std::path::Path;

pub use facts::{Facts, Struck};
pub use file::read;
pub use summary::{keep_summary, summary};

use crate::audit::Audits;
use crate::history::{Episode, History, Moment, Outcome, Request, Span};
use crate::oracle::{Lateness, Verdict};
use crate::plan::Plan;

/// A run and what is to be said of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What was done.
    pub plan: Plan,
    /// What was seen.
    pub history: History,
    /// How often it was audited.
    pub audits: Audits,
    /// What the judge says.
    pub verdict: Verdict,
}

impl Report {
    /// Whether nothing was found.
    #[must_use]
    pub const fn is_good(&self) -> bool {
        self.verdict.findings.is_empty()
    }

    /// The table of this run.
    #[must_use]
    pub fn table(&self) -> String {
        table::of_run(self)
    }

    /// Its main facts.
    #[must_use]
    pub fn facts(&self) -> Facts {
        Facts::of(self)
    }

    /// Writes table, facts, picture and history into `folder`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        self.write_verdict(folder)?;
        self.write_history(folder)?;
        picture::draw(self, &folder.join("lateness.svg")).map_err(io::Error::other)
    }

    /// Writes the history into `folder`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_history(&self, folder: &Path) -> io::Result<()> {
        file::write(self, &folder.join("history.jsonl"))
    }

    /// Writes table and facts into `folder`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_verdict(&self, folder: &Path) -> io::Result<()> {
        std::fs::write(folder.join("report.txt"), self.table())?;
        self.facts().write(folder)
    }

    /// The latest delivery that was due while this episode may have held it up.
    #[must_use]
    pub fn worst_in(&self, episode: &Episode) -> Option<Lateness> {
        let Span { from, to } = episode.span;
        self.verdict
            .worst_between(from, to.max(episode.excuses_until))
    }

    /// The latest delivery of all.
    #[must_use]
    pub fn worst(&self) -> Option<Lateness> {
        self.verdict.worst_between(0, Moment::MAX)
    }

    /// From the end of an episode to the first publish that was answered well after it, in µs.
    #[must_use]
    pub fn recovery_after(&self, episode: &Episode) -> Option<u64> {
        let after = self.publishes().filter(|at| *at >= episode.span.to);
        after.map(|at| at - episode.span.to).min()
    }

    /// The longest time from one publish that was answered well to the next, in µs.
    #[must_use]
    pub fn longest_gap(&self) -> u64 {
        let mut last = self.history.began;
        let gaps = self.publishes().map(|at| {
            let gap = at.saturating_sub(last);
            last = at;
            gap
        });
        gaps.max().unwrap_or_default()
    }

    /// When publishes were answered well, in order.
    fn publishes(&self) -> impl Iterator<Item = Moment> {
        let good = self.history.operations.iter().filter(|operation| {
            matches!(operation.request, Request::Publish { .. })
                && matches!(operation.outcome, Outcome::Published(_))
        });
        good.map(|operation| operation.span.to)
    }
}
