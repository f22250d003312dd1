//! `tidegate-faults`: tries to make the service lose, double or hurry a job.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this program talks to a person at a terminal"
)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use tidegate_faults::plan::Deployment;
use tidegate_faults::report::{Facts, Report, keep_summary, read, summary};
use tidegate_faults::{Class, Plan, Step, Wishes, measure, run, yardstick};
use tidegate_testkit::RedisOptions;
use tokio::runtime::Runtime;

/// Of one run; it mostly waits.
const THREADS: usize = 2;

/// Tries to make Tidegate lose, double or hurry a job, and tells whether it did.
///
/// Each run has a Redis, APIs and pumps of its own on this machine, with a proxy on every way between them. Clients
/// publish, consume, ack, cancel, replace, respawn, purge, peek, crash, give up and hang up, while one fault after the
/// other is made to happen. In the end every job is brought to its end and held against what was promised for it. The exit code is 1 if anything was found.
///
///     cargo xtask faults                           one run of a new seed, about a minute
///     cargo xtask faults --seed 7 --runs 20        seeds 7 to 26, two at a time
///     cargo xtask faults --minutes 60              as many as there is time for
///     cargo xtask faults --class pump-kill,net-cut --seconds 120
///     cargo xtask faults --judge target/faults/7/history.jsonl
///     cargo xtask faults --summary                 one table of all runs that are kept
///     cargo xtask faults --yardstick               measures again what lateness is without faults
///
/// target/faults/SEED has what a run left behind: report.txt, lateness.svg, every request in history.jsonl, all logs.
/// target/faults/summary.txt is the table of all runs there, of this session and those before it.
/// docs/faults.md tells what is tried, what is promised, and how to study a run that failed.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask faults",
    bin_name = "cargo xtask faults",
    verbatim_doc_comment
)]
struct Flags {
    /// The seed of the first run; a new one if there is none. Each further run has the next
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How many runs to make
    #[arg(long, value_name = "N", conflicts_with = "minutes")]
    runs: Option<u64>,
    /// How long to go on beginning new runs
    #[arg(long, value_name = "M")]
    minutes: Option<u64>,
    /// Only faults of these classes; of all, each once before one comes again, if none is named
    #[arg(
        long = "class",
        value_name = "CLASS",
        value_enum,
        value_delimiter = ','
    )]
    classes: Vec<Class>,
    /// What keeps the jobs; drawn by chance if it is not named
    #[arg(long, value_enum)]
    deployment: Option<Deployment>,
    /// How long a run makes faults
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// How many runs at a time
    #[arg(long, value_name = "N", default_value_t = 2)]
    at_once: usize,
    /// Where runs leave what they saw
    #[arg(long, value_name = "FOLDER", default_value = "target/faults")]
    folder: PathBuf,
    /// Judges the history of an earlier run again instead
    #[arg(long, value_name = "FILE", exclusive = true)]
    judge: Option<PathBuf>,
    /// Shows all runs that are kept instead
    #[arg(long)]
    summary: bool,
    /// Measures how late jobs are without faults, for this deployment or for all, instead. It is made on demand where it is
    /// missing, and kept in the folder
    #[arg(long)]
    yardstick: bool,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let is_good = match &flags.judge {
        Some(file) => judge_again(file),
        None if flags.summary => show_all(&flags.folder),
        None if flags.yardstick => measure_all(&flags),
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
    Ok(report.is_good())
}

fn show_all(folder: &Path) -> std::io::Result<bool> {
    print!("{}", keep_summary(folder)?);
    Ok(true)
}

fn measure_all(flags: &Flags) -> std::io::Result<bool> {
    let all = Deployment::value_variants();
    let wanted = flags.deployment.as_ref().map_or(all, std::slice::from_ref);
    let runtime = runtime()?;
    for deployment in wanted {
        let baseline = runtime.block_on(measure(&flags.folder, *deployment))?;
        println!(
            "{}: the latest of {} jobs came {:.1} ms after it was due, work took {:.1} times as long as on an idle machine",
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

fn make_runs(flags: &Flags) -> std::io::Result<bool> {
    let (runs, broken) = all_runs(flags);
    if runs.len() > 1 {
        print!("\n{}", summary(&runs));
    }
    keep_summary(&flags.folder)?;
    Ok(broken == 0 && runs.iter().all(|facts| facts.findings.is_empty()))
}

/// The facts of all runs in the order of their ends, and how many came to no end.
fn all_runs(flags: &Flags) -> (Vec<Facts>, usize) {
    let first = flags.seed.unwrap_or_else(|| rand::random::<u32>().into());
    let end = flags
        .minutes
        .map(|minutes| Instant::now() + Duration::from_secs(minutes * 60));
    let is_wanted = |number: u64| match (flags.runs, end) {
        (_, Some(end)) => Instant::now() < end,
        (runs, None) => number < runs.unwrap_or(1),
    };
    let (ended, ends) = mpsc::channel();
    let (mut number, mut running, mut runs, mut broken) = (0, 0, Vec::new(), 0);
    let wishes = wishes(flags);
    loop {
        while running < flags.at_once.max(1) && is_wanted(number) {
            let seed = first.wrapping_add(number);
            let folder = flags.folder.join(seed.to_string());
            begin_run(seed, wishes.clone(), folder, ended.clone());
            (number, running) = (number + 1, running + 1);
        }
        if running == 0 {
            return (runs, broken);
        }
        match ends.recv() {
            Ok(Ok(report)) => {
                show(&report, flags);
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

/// Each run has threads of its own: one that cannot go on takes no other with it.
fn begin_run(
    seed: u64,
    wishes: Wishes,
    folder: PathBuf,
    ended: mpsc::Sender<Result<Report, String>>,
) {
    std::thread::spawn(move || {
        let running =
            std::thread::spawn(move || runtime()?.block_on(one_run(seed, wishes, folder)));
        let report = match running.join() {
            Ok(report) => report.map_err(|error| format!("seed {seed}: {error}")),
            // It has said why when it panicked.
            Err(_) => Err(format!("seed {seed} came to no end")),
        };
        // Nobody listens any more when everything is over.
        let _ = ended.send(report);
    });
}

fn wishes(flags: &Flags) -> Wishes {
    Wishes {
        classes: flags.classes.clone(),
        seconds: flags.seconds,
        deployment: flags.deployment,
        has_waitaof: RedisOptions::new().valkey().can_be_had(),
    }
}

async fn one_run(seed: u64, wishes: Wishes, folder: PathBuf) -> std::io::Result<Report> {
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    let plan = Plan::draw(seed, &wishes);
    let begin = Instant::now();
    let faults = plan.faults.len();
    let baseline = yardstick(folder.parent().unwrap_or(&folder), plan.deployment).await?;
    let report = run(&plan, &folder, &baseline, |step| {
        let at = begin.elapsed().as_secs();
        match step {
            Step::Starting => println!(
                "{seed} {at:>4} s  starting {}, {faults} faults",
                plan.setup()
            ),
            Step::Fault(number, fault) => {
                println!(
                    "{seed} {at:>4} s  fault {number} of {faults}: {}",
                    fault.class.name()
                );
            }
            Step::Draining => println!("{seed} {at:>4} s  bringing every job to its end"),
        }
    })
    .await;
    report.write(&folder)?;
    Ok(report)
}

fn show(report: &Report, flags: &Flags) {
    let seed = report.plan.seed;
    print!("\n{}", report.table());
    println!("  everything of it: {}/{seed}", flags.folder.display());
    match report.is_good() {
        true if report.history.proves_lateness() => {
            println!("  nothing was lost, doubled, early or late\n");
        }
        true => println!("  nothing was lost, doubled or early\n"),
        false => println!(
            "  again: cargo xtask faults --seed {seed}{}\n",
            repeated(flags)
        ),
    }
}

/// The flags that shape a plan.
fn repeated(flags: &Flags) -> String {
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
