//! `tidegate-soak`: a mixed load at half of the capacity for hours, and a verdict about jobs, memory and lateness.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use tidegate_faults::soak::{SoakOptions, SoakProgress, heading, line, run_soak};

/// Runs a mixed load at half of the capacity against a deployment on this machine, and watches what grows.
///
/// The deployment is one Redis, two APIs and two pumps. Clients use both wires: ready and delayed jobs, retries, keys,
/// cancels, results, a queue with eight lanes, waiting consumers. One API and one pump restart in turns, all metrics
/// are scraped, and Redis is audited. A line is printed once a minute. The exit status is 1 if a job was lost,
/// delivered twice or early, if an audit found anything, if memory has changed by more than 2 % since the first ten
/// minutes, if the lateness p99 of the last quarter is more than 1.2 times that of the first, or if open files have
/// grown.
///
///     cargo xtask soak --hours 1
///     cargo xtask soak --minutes 10                intervals are scaled down
///     cargo xtask soak --hours 8 --rate 500
///
/// The folder has samples.csv, report.txt and the logs. docs/soak.md describes how to read them.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask soak",
    bin_name = "cargo xtask soak",
    verbatim_doc_comment
)]
struct SoakFlags {
    /// Hours to measure [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "minutes", value_parser = clap::value_parser!(u32).range(1..))]
    hours: Option<u32>,
    /// Minutes to measure
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    minutes: Option<u32>,
    /// Jobs published per second [default: half of the capacity, which is measured first]
    #[arg(long, value_name = "JOBS_PER_SECOND", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Folder of the results
    #[arg(long, value_name = "DIR", default_value = "target/soak")]
    out: PathBuf,
}

fn main() -> ExitCode {
    match soak(&SoakFlags::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether everything holds.
fn soak(flags: &SoakFlags) -> std::io::Result<bool> {
    let minutes = flags
        .minutes
        .unwrap_or_else(|| flags.hours.unwrap_or(1).saturating_mul(60));
    let options = SoakOptions {
        length: Duration::from_secs(60 * u64::from(minutes)),
        rate: flags.rate.map(f64::from),
    };
    std::fs::create_dir_all(&flags.out)?;
    let folder = flags.out.canonicalize()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let begin = Instant::now();
    let report = runtime.block_on(run_soak(options, &folder, |step| show(step, begin)));
    let files = report.write(&folder)?;
    print!("\n{}", report.table());
    for file in files {
        println!("{}", file.display());
    }
    Ok(report.is_good())
}

fn show(step: SoakProgress<'_>, begin: Instant) {
    let at = begin.elapsed().as_secs();
    match step {
        SoakProgress::Calibrating(time) => {
            println!("measuring the capacity for {} s", time.as_secs());
        }
        SoakProgress::Running { rate, capacity, .. } => {
            let of = capacity.map_or_else(String::new, |all| format!(" of {all:.0} possible"));
            print!("{rate:.0} jobs/s{of}\n{}", heading());
        }
        SoakProgress::Sample(sample) => println!("{}", line(sample)),
        SoakProgress::Restarting(name) => println!("        restarting {name}"),
        SoakProgress::Draining(jobs) => println!("{at} s after the start: waiting for {jobs} jobs"),
    }
}
