//! Reports of a run: a table, a plot, and all data as files.

mod file;
mod run_report;
mod run_summary;
mod summary;
mod table;

use std::io;
use std::path::Path;

pub use file::read;
pub use run_report::RunReport;
pub use run_summary::{FaultEffects, RunSummary};
pub use summary::{summary, write_summary};

impl RunReport {
    /// Returns the table of this run.
    #[must_use]
    pub fn table(&self) -> String {
        table::run_table(self)
    }

    #[must_use]
    pub fn facts(&self) -> RunSummary {
        RunSummary::from_report(self)
    }

    /// Writes table, facts and history into `folder`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        self.write_verdict(folder)?;
        self.write_history(folder)
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
}
