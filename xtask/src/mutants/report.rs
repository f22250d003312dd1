//! Prints mutants and results.

use std::fmt::Write;
use std::time::Duration;

use super::check::MutantCheck;
use super::list::Mutant;
use super::runner::CheckResult;

/// A check that was run on a mutant.
#[derive(Debug)]
pub(super) struct CheckOfMutant<'a> {
    pub(super) check: &'a MutantCheck,
    pub(super) ran: CheckResult,
}

#[derive(Debug)]
pub(super) struct MutantResult<'a> {
    pub(super) mutant: &'a Mutant,
    /// The outcomes of all checks that were run.
    pub(super) outcomes: Vec<CheckOfMutant<'a>>,
}

impl MutantResult<'_> {
    /// Whether every check that was run caught the mutant.
    pub(super) fn is_caught(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.ran.is_caught())
    }
}

/// Lists the mutants and their checks.
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

/// One line for each check of each mutant, and a summary.
pub(super) fn table(rows: &[MutantResult<'_>], total: Duration) -> String {
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
                CheckResult::Passed(_) => "SURVIVED",
                _ => "UNDECIDED",
            };
            let time = seconds(outcome.ran.time());
            let _ = write!(
                text,
                "{name:width$}  {word:9}  {time:>8}  {}",
                outcome.check
            );
            let _ = match &outcome.ran {
                CheckResult::Passed(_) | CheckResult::Failed(..) => writeln!(text),
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
