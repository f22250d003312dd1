//! `cargo xtask mutants`: plants known defects one at a time, and shows which check catches each.
//!
//! ```text
//!  tests/mutants/*.toml ──► one mutant ──► planted in a copy of the sources ──► built ──► its checks, cheapest first
//!                               ▲                                                              │
//!                               └────── undone ◄── caught by a check, or survived ◄────────────┘
//! ```
//!
//! The copy is in target/mutants/tree and has a separate target folder, so the original sources are never changed, and
//! builds are incremental.

mod check;
mod list;
mod report;
mod runner;
mod source_copy;

use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use tidegate_local_redis::{obtain, workspace_cache};

use crate::workspace::Workspace;
pub(crate) use list::{FOLDER, Mutant, MutantList};
use report::{CheckOfMutant, MutantResult};
use runner::{CheckResult, Runner};
use source_copy::SourceCopy;
use tidegate_local_deployment::{CommandError, StopRequests};

/// The flags of `mutants`.
#[derive(Debug, Args)]
pub(crate) struct MutantsOptions {
    /// Run only the mutants with these names
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Run only the mutants of these areas: names of files in tests/mutants, without .toml
    #[arg(long, value_name = "AREA", value_delimiter = ',')]
    area: Vec<String>,
    /// Print the mutants and their checks, and run nothing
    #[arg(long)]
    list: bool,
    /// Run all checks of each mutant, instead of only the first, which is the cheapest. Each check must catch it
    #[arg(long)]
    all_checks: bool,
    /// Print the failure message of each check that caught a mutant
    #[arg(long)]
    messages: bool,
    /// Skip the run of all checks on the unchanged sources. A check that hangs on a mutant is then undecided
    #[arg(long)]
    skip_baseline: bool,
    /// Seed of the random choices in the tests. The list has the seeds of fault runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(workspace: &Workspace, options: &MutantsOptions) -> ExitCode {
    match check_mutants(workspace, options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) | Err(CommandError::Interrupted) => ExitCode::FAILURE,
        Err(CommandError::Failed(reason)) => {
            eprintln!("\nerror: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether every selected mutant was caught.
fn check_mutants(workspace: &Workspace, options: &MutantsOptions) -> Result<bool, CommandError> {
    let list = MutantList::read(workspace.root())?;
    let mutants = list.select(&options.only, &options.area)?;
    if options.list {
        print!("{}", report::list(&mutants));
        return Ok(true);
    }
    let signals = StopRequests::install().map_err(|error| {
        CommandError::Failed(format!("failed to install signal handlers: {error}"))
    })?;
    obtain(&workspace_cache(), &mut |line| println!("{line}"))
        .map_err(|error| error.to_string())?;
    let copy = SourceCopy::refresh(workspace.root(), &workspace.target().join("mutants"))?;
    // Check that all mutants apply before the first one runs.
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
    // After an error or Ctrl-C too, for the mutants before it.
    let table = report::table(&rows, begin.elapsed());
    print!("\n{table}");
    let file = workspace.target().join("mutants").join("report.txt");
    std::fs::write(&file, table).map_err(|error| format!("{}: {error}", file.display()))?;
    ended?;
    Ok(rows.iter().all(MutantResult::is_caught))
}

fn check_each<'a>(
    copy: &SourceCopy,
    runner: &Runner<'_>,
    mutants: &[&'a Mutant],
    options: &MutantsOptions,
    rows: &mut Vec<MutantResult<'a>>,
) -> Result<(), CommandError> {
    for (number, mutant) in mutants.iter().enumerate() {
        println!("[{}/{}] {}", number + 1, mutants.len(), mutant.name);
        let outcomes = check_mutant(copy, runner, mutant, options)?;
        rows.push(MutantResult { mutant, outcomes });
    }
    Ok(())
}

/// Runs every needed check on the unchanged copy. A check that fails there cannot catch a mutant.
fn run_baseline(
    runner: &mut Runner<'_>,
    mutants: &[&Mutant],
    all_checks: bool,
) -> Result<(), CommandError> {
    let mut failed = Vec::new();
    let checks = list::checks_of(mutants, all_checks);
    for (number, check) in checks.iter().enumerate() {
        println!("[baseline {}/{}] {check}", number + 1, checks.len());
        match runner.run(check, &format!("baseline-{number}"))? {
            CheckResult::Passed(time) => runner.set_usual_time(check, time),
            other => failed.push(format!("{check}: {other}")),
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(CommandError::Failed(format!(
        "checks fail on the unchanged sources:\n  {}",
        failed.join("\n  ")
    )))
}

/// Plants a mutant, runs its checks and removes it again.
fn check_mutant<'a>(
    copy: &SourceCopy,
    runner: &Runner<'_>,
    mutant: &'a Mutant,
    options: &MutantsOptions,
) -> Result<Vec<CheckOfMutant<'a>>, CommandError> {
    let planted = copy.plant(mutant)?;
    let mut outcomes = Vec::new();
    for (number, check) in mutant.needed_checks(options.all_checks).iter().enumerate() {
        let ran = runner.run(check, &format!("{}-{number}", mutant.name))?;
        println!("    {ran} in {}: {check}", report::seconds(ran.time()));
        if let (true, Some(message)) = (options.messages, ran.message()) {
            println!("{}", report::indented(message));
        }
        outcomes.push(CheckOfMutant { check, ran });
    }
    planted.undo()?;
    Ok(outcomes)
}
