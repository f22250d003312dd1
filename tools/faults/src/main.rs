//! `tidegate-faults`: injects faults and checks that no job is lost, duplicated, early or late.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program"
)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use tidegate_faults::deployment::Deployment;
use tidegate_faults::report::{RunReport, RunSummary, read, summary, write_summary};
use tidegate_faults::{Class, Plan, PlanOptions, RunProgress, baseline, measure_baseline, run};
use tidegate_testkit::RedisOptions;
use tokio::runtime::Runtime;

/// Worker threads per run, which mostly waits.
const THREADS: usize = 2;

/// Injects faults into a Tidegate deployment under load, and checks that no job is lost, duplicated, early or late.
///
/// Each run has a private Redis, APIs and pumps on this machine, with a proxy on every connection between them. Clients
/// publish, consume, ack, cancel, replace, respawn, purge and peek; some crash, give up or hang up. Meanwhile one fault
/// after the other is injected. At the end all jobs are drained, and the history of every job is checked against the
/// guarantees. The exit status is 1 if a run has findings or fails.
///
///     cargo xtask faults                           one run with a new seed, about a minute
///     cargo xtask faults --seed 7 --runs 20        seeds 7 to 26, two at a time
///     cargo xtask faults --minutes 60              start runs for 60 minutes
///     cargo xtask faults --class pump-kill,net-cut --seconds 120
///     cargo xtask faults --judge target/faults/7/history.jsonl
///     cargo xtask faults --summary                 one table of all stored runs
///     cargo xtask faults --baseline                measure lateness without faults again
///
/// target/faults/SEED has the results of a run: report.txt, every request in history.jsonl, all logs.
/// target/faults/summary.txt is the table of all stored runs. docs/faults.md describes the faults, the checks, and how
/// to study a failed run.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask faults",
    bin_name = "cargo xtask faults",
    verbatim_doc_comment
)]
struct FaultsFlags {
    /// Seed of the first run; each further run has the next one [default: random]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Number of runs [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "minutes")]
    runs: Option<u64>,
    /// Start new runs for this number of minutes
    #[arg(long, value_name = "M")]
    minutes: Option<u64>,
    /// Inject only faults of these classes; each occurs once before one is repeated [default: all]
    #[arg(
        long = "class",
        value_name = "CLASS",
        value_enum,
        value_delimiter = ','
    )]
    classes: Vec<Class>,
    /// Redis deployment [default: chosen by the seed]
    #[arg(long, value_enum)]
    deployment: Option<Deployment>,
    /// Seconds during which a run injects faults [default: 30]
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// Number of concurrent runs
    #[arg(long, value_name = "N", default_value_t = 2)]
    parallel: usize,
    /// Folder of the results
    #[arg(long, value_name = "FOLDER", default_value = "target/faults")]
    folder: PathBuf,
    /// Judge the history.jsonl of an earlier run again, and update its report
    #[arg(long, value_name = "FILE", exclusive = true)]
    judge: Option<PathBuf>,
    /// Print the summary of all stored runs
    #[arg(long)]
    summary: bool,
    /// Measure lateness without faults, for --deployment or for all deployments, and store it in the folder. Runs do
    /// this on demand if it is missing
    #[arg(long)]
    baseline: bool,
}

fn main() -> ExitCode {
    let flags = FaultsFlags::parse();
    let is_good = match &flags.judge {
        Some(file) => judge_again(file),
        None if flags.summary => print_summary(&flags.folder),
        None if flags.baseline => measure_baselines(&flags),
        None => make_runs(&flags),
    };
    match is_good {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn judge_again(file: &Path) -> std::io::Result<bool> {
    let report = read(file)?;
    if let Some(folder) = file.parent() {
        report.write_verdict(folder)?;
    }
    print!("{}", report.table());
    Ok(report.has_no_findings())
}

fn print_summary(folder: &Path) -> std::io::Result<bool> {
    print!("{}", write_summary(folder)?);
    Ok(true)
}

fn measure_baselines(flags: &FaultsFlags) -> std::io::Result<bool> {
    let all = Deployment::value_variants();
    let wanted = flags.deployment.as_ref().map_or(all, std::slice::from_ref);
    let runtime = runtime()?;
    for deployment in wanted {
        let baseline = runtime.block_on(measure_baseline(&flags.folder, *deployment))?;
        println!(
            "{}: the latest of {} jobs was {:.1} ms late; work took {:.1} times as long as on an idle machine",
            deployment.name(),
            baseline.deliveries,
            baseline.latest as f64 / 1000.0,
            baseline.slowdown
        );
    }
    Ok(true)
}

fn runtime() -> std::io::Result<Runtime> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(THREADS).enable_all().build()
}

fn make_runs(flags: &FaultsFlags) -> std::io::Result<bool> {
    let (runs, broken) = all_runs(flags);
    if runs.len() > 1 {
        print!("\n{}", summary(&runs));
    }
    write_summary(&flags.folder)?;
    Ok(broken == 0 && runs.iter().all(|facts| facts.findings.is_empty()))
}

/// Makes all runs. Returns their facts, ordered by end, and the number of runs that failed.
fn all_runs(flags: &FaultsFlags) -> (Vec<RunSummary>, usize) {
    let first = flags.seed.unwrap_or_else(|| rand::random::<u32>().into());
    let end = flags
        .minutes
        .map(|minutes| Instant::now() + Duration::from_secs(minutes * 60));
    let is_wanted = |number: u64| match (flags.runs, end) {
        (_, Some(end)) => Instant::now() < end,
        (runs, None) => number < runs.unwrap_or(1),
    };
    #[expect(clippy::disallowed_methods, reason = "bounded by the number of runs")]
    let (ended, ends) = mpsc::channel();
    let (mut number, mut running, mut runs, mut broken) = (0, 0, Vec::new(), 0);
    let options = plan_options(flags);
    loop {
        while running < flags.parallel.max(1) && is_wanted(number) {
            let seed = first.wrapping_add(number);
            let folder = flags.folder.join(seed.to_string());
            begin_run(seed, options.clone(), folder, ended.clone());
            (number, running) = (number + 1, running + 1);
        }
        if running == 0 {
            return (runs, broken);
        }
        match ends.recv() {
            Ok(Ok(report)) => {
                print_report(&report, flags);
                runs.push(report.facts());
            }
            Ok(Err(reason)) => {
                eprintln!("error: {reason}");
                broken += 1;
            }
            Err(_) => return (runs, broken),
        }
        running -= 1;
    }
}

/// Starts a run on separate threads, so that a panic does not affect other runs.
fn begin_run(
    seed: u64,
    options: PlanOptions,
    folder: PathBuf,
    ended: mpsc::Sender<Result<RunReport, String>>,
) {
    std::thread::spawn(move || {
        let running =
            std::thread::spawn(move || runtime()?.block_on(one_run(seed, options, folder)));
        let report = match running.join() {
            Ok(report) => report.map_err(|error| format!("seed {seed}: {error}")),
            // The panic has printed the reason.
            Err(_) => Err(format!("the run of seed {seed} panicked")),
        };
        // Fails only if the receiver is gone.
        let _ = ended.send(report);
    });
}

fn plan_options(flags: &FaultsFlags) -> PlanOptions {
    PlanOptions {
        classes: flags.classes.clone(),
        seconds: flags.seconds,
        deployment: flags.deployment,
        has_waitaof: RedisOptions::has_valkey(),
    }
}

async fn one_run(seed: u64, options: PlanOptions, folder: PathBuf) -> std::io::Result<RunReport> {
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    let plan = Plan::draw(seed, &options);
    let begin = Instant::now();
    let faults = plan.faults.len();
    let baseline = baseline(folder.parent().unwrap_or(&folder), plan.deployment).await?;
    let report = run(&plan, &folder, &baseline, |step| {
        let at = begin.elapsed().as_secs();
        match step {
            RunProgress::Starting => println!(
                "{seed} {at:>4} s  starting {}, {faults} faults",
                plan.setup()
            ),
            RunProgress::Fault(number, fault) => {
                println!(
                    "{seed} {at:>4} s  fault {number} of {faults}: {}",
                    fault.class.name()
                );
            }
            RunProgress::Draining => println!("{seed} {at:>4} s  draining all jobs"),
        }
    })
    .await;
    report.write(&folder)?;
    Ok(report)
}

fn print_report(report: &RunReport, flags: &FaultsFlags) {
    let seed = report.plan.seed;
    print!("\n{}", report.table());
    println!("  results: {}/{seed}", flags.folder.display());
    match report.has_no_findings() {
        true if report.history.proves_lateness() => {
            println!("  no findings: nothing was lost, doubled, early or late\n");
        }
        true => println!("  no findings: nothing was lost, doubled or early\n"),
        false => println!(
            "  to repeat the plan: cargo xtask faults --seed {seed}{}\n",
            plan_flags(flags)
        ),
    }
}

/// Returns the flags that determine a plan, besides the seed.
fn plan_flags(flags: &FaultsFlags) -> String {
    let mut text = String::new();
    if !flags.classes.is_empty() {
        let names: Vec<String> = flags.classes.iter().map(|class| class.name()).collect();
        text += &format!(" --class {}", names.join(","));
    }
    if let Some(seconds) = flags.seconds {
        text += &format!(" --seconds {seconds}");
    }
    if let Some(deployment) = flags.deployment {
        text += &format!(" --deployment {}", deployment.name());
    }
    text
}
