//! What is printed of mutants.

use std::fmt::Write;
use std::time::Duration;

use super::check::Check;
use super::list::Mutant;
use super::runner::Ran;

/// A check that was run on a mutant.
#[derive(Debug)]
pub(super) struct Outcome<'a> {
    pub(super) check: &'a Check,
    pub(super) ran: Ran,
}

/// What came of a mutant.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub(super) mutant: &'a Mutant,
    /// Of all checks that were run.
    pub(super) outcomes: Vec<Outcome<'a>>,
}

impl Row<'_> {
    /// Whether every check that was run has caught the mutant.
    pub(super) fn is_caught(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.ran.is_caught())
    }
}

/// The mutants and what is to catch them.
pub(super) fn list(mutants: &[&Mutant]) -> String {
    let mut text = String::new();
    for mutant in mutants {
        let _ = writeln!(
            text,
            "{} [{}] {}\n    {}",
            mutant.name, mutant.area, mutant.file, mutant.breaks
        );
        for check in &mutant.checks {
            let _ = writeln!(text, "    {check}");
        }
    }
    let _ = writeln!(text, "{} mutants", mutants.len());
    text
}

/// A line for each check of each mutant, and the sum.
pub(super) fn table(rows: &[Row<'_>], total: Duration) -> String {
    let width = rows
        .iter()
        .map(|row| row.mutant.name.len())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let mut name = row.mutant.name.as_str();
        for outcome in &row.outcomes {
            let word = match &outcome.ran {
                ran if ran.is_caught() => "caught",
                Ran::Passed(_) => "SURVIVED",
                _ => "UNDECIDED",
            };
            let time = seconds(outcome.ran.time());
            let _ = write!(
                text,
                "{name:width$}  {word:9}  {time:>8}  {}",
                outcome.check
            );
            let _ = match &outcome.ran {
                Ran::Passed(_) | Ran::Failed(..) => writeln!(text),
                other => writeln!(text, " ({other})"),
            };
            name = "";
        }
    }
    let caught = rows.iter().filter(|row| row.is_caught()).count();
    let _ = writeln!(
        text,
        "{caught} of {} mutants caught in {}",
        rows.len(),
        seconds(total)
    );
    text
}

pub(super) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

pub(super) fn indented(text: &str) -> String {
    let lines = text.lines().map(|line| format!("      {line}"));
    lines.collect::<Vec<_>>().join("\n")
}
