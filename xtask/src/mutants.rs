//! `cargo xtask mutants`: plants known defects one at a time and shows which check catches each.
//!
//! ```text
//!  tests/mutants/*.toml ──► one mutant ──► planted in a copy of the sources ──► built ──► its checks, cheapest first
//!                               ▲                                                              │
//!                               └────── undone ◄── caught by a check, or survived ◄────────────┘
//! ```
//!
//! The copy is in target/mutants/tree and has its own target folder, so the sources of the developer are never changed
//! and builds are incremental.

mod check;
mod list;
mod report;
mod runner;
mod source_copy;

use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use tidegate_local_redis::{obtain, workspace_cache};

use crate::dev::Ending;
use crate::dev::signals::Signals;
use crate::workspace::Workspace;
pub(crate) use list::{FOLDER, Mutant, MutantList};
use report::{Outcome, Row};
use runner::{Ran, Runner};
use source_copy::SourceCopy;

/// The flags of `mutants`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Only the mutants with these names
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Only the mutants of these areas: names of files in tests/mutants
    #[arg(long, value_name = "AREA", value_delimiter = ',')]
    area: Vec<String>,
    /// Print the mutants and their checks, run nothing
    #[arg(long)]
    list: bool,
    /// Run all checks of a mutant, not only the first, which is the cheapest. Each must catch it
    #[arg(long)]
    all_checks: bool,
    /// Print why the catching check failed
    #[arg(long)]
    messages: bool,
    /// Do not run the checks on the unchanged sources first. A check that hangs on a mutant then decides nothing
    #[arg(long)]
    skip_baseline: bool,
    /// Seed of the random choices in the tests. Fault runs have their own in the list
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> ExitCode {
    match check_mutants(workspace, options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) | Err(Ending::Asked) => ExitCode::FAILURE,
        Err(Ending::Failed(reason)) => {
            eprintln!("\nerror: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every selected mutant was caught.
fn check_mutants(workspace: &Workspace, options: &Options) -> Result<bool, Ending> {
    let list = MutantList::read(workspace.root())?;
    let mutants = list.select(&options.only, &options.area)?;
    if options.list {
        print!("{}", report::list(&mutants));
        return Ok(true);
    }
    let signals = Signals::catch()
        .map_err(|error| Ending::Failed(format!("failed to catch signals: {error}")))?;
    obtain(&workspace_cache(), &mut |line| println!("{line}"))
        .map_err(|error| error.to_string())?;
    let copy = SourceCopy::refresh(workspace.root(), &workspace.target().join("mutants"))?;
    // Otherwise a long call could end at its last mutant.
    for mutant in &mutants {
        copy.with_mutant(mutant)?;
    }
    let mut runner = Runner::new(&copy, options.seed, &signals);
    let begin = Instant::now();
    if !options.skip_baseline {
        run_baseline(&mut runner, &mutants, options.all_checks)?;
    }
    let mut rows = Vec::new();
    let ended = check_each(&copy, &runner, &mutants, options, &mut rows);
    // Also of the mutants before an error or Ctrl-C.
    let table = report::table(&rows, begin.elapsed());
    print!("\n{table}");
    let file = workspace.target().join("mutants").join("report.txt");
    std::fs::write(&file, table).map_err(|error| format!("{}: {error}", file.display()))?;
    ended?;
    Ok(rows.iter().all(Row::is_caught))
}

fn check_each<'a>(
    copy: &SourceCopy,
    runner: &Runner<'_>,
    mutants: &[&'a Mutant],
    options: &Options,
    rows: &mut Vec<Row<'a>>,
) -> Result<(), Ending> {
    for (number, mutant) in mutants.iter().enumerate() {
        println!("[{}/{}] {}", number + 1, mutants.len(), mutant.name);
        let outcomes = check_mutant(copy, runner, mutant, options)?;
        rows.push(Row { mutant, outcomes });
    }
    Ok(())
}

/// Runs every check that may be needed on the unchanged copy. A check that fails there cannot catch anything.
fn run_baseline(
    runner: &mut Runner<'_>,
    mutants: &[&Mutant],
    all_checks: bool,
) -> Result<(), Ending> {
    let mut failed = Vec::new();
    let checks = list::checks_of(mutants, all_checks);
    for (number, check) in checks.iter().enumerate() {
        println!("[baseline {}/{}] {check}", number + 1, checks.len());
        match runner.run(check, &format!("baseline-{number}"))? {
            Ran::Passed(time) => runner.note_usual_time(check, time),
            other => failed.push(format!("{check}: {other}")),
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Ending::Failed(format!(
        "checks fail on the unchanged sources:\n  {}",
        failed.join("\n  ")
    )))
}

/// Plants a mutant, runs its checks and removes it again.
fn check_mutant<'a>(
    copy: &SourceCopy,
    runner: &Runner<'_>,
    mutant: &'a Mutant,
    options: &Options,
) -> Result<Vec<Outcome<'a>>, Ending> {
    let planted = copy.plant(mutant)?;
    let mut outcomes = Vec::new();
    for (number, check) in mutant.needed_checks(options.all_checks).iter().enumerate() {
        let ran = runner.run(check, &format!("{}-{number}", mutant.name))?;
        println!("    {ran} in {}: {check}", report::seconds(ran.time()));
        if let (true, Some(message)) = (options.messages, ran.message()) {
            println!("{}", report::indented(message));
        }
        outcomes.push(Outcome { check, ran });
    }
    planted.undo()?;
    Ok(outcomes)
}
