//! `tidegate work`: runs a program for each job.

use std::io::Write;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use tidegate::{Client, DurationMs, Fail, Job, JobReply, Worker};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;

use crate::failure::CommandFailure;
use crate::signals::stopped;

/// How long a program has to end after SIGTERM, until it is killed.
const TERM_TIME: Duration = Duration::from_secs(5);
/// How long the last lines of a program that has ended are waited for.
const LINES_TIME: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(
    after_help = "The payload is the standard input of the program. Its environment has:
  TIDEGATE_JOB_ID, TIDEGATE_JOB_QUEUE, TIDEGATE_JOB_KEY, TIDEGATE_JOB_ATTEMPT, TIDEGATE_JOB_FAILURES,
  TIDEGATE_JOB_CONTENT_TYPE, and TIDEGATE_ATTR_<NAME> for each attribute (in capitals, other characters as _)

Exit code 0: the job is done. Other codes: it is retried by the policy of its queue, with the last line of the standard
error as the reason. The code of --dead-exit-code: it is dead. Leases are extended while the program runs. If the lease is
lost or the job is cancelled, the program gets SIGTERM, and SIGKILL 5 s later. SIGTERM or Ctrl-C ends the worker: programs
have --grace to end.

Example:
  tidegate work close-unpaid -- sh -c 'jq .order | xargs close-order'"
)]
pub(crate) struct WorkArguments {
    /// The queues, in order of priority.
    #[arg(required = true)]
    queues: Vec<String>,
    /// The name with which the worker is listed together with the jobs that it holds. Default: HOST:PID.
    #[arg(long)]
    name: Option<String>,
    /// How many programs run at a time.
    #[arg(long, default_value_t = 1)]
    concurrency: usize,
    /// How long a job is leased at a time. Default: as its queue says.
    #[arg(long)]
    lease: Option<DurationMs>,
    /// The exit code after which a job is dead at once.
    #[arg(long, default_value_t = 100)]
    dead_exit_code: i32,
    /// Takes the standard output of the program as the result of the job, with this content type.
    #[arg(long, value_name = "CONTENT-TYPE")]
    result: Option<String>,
    /// How long programs may run on after SIGTERM or Ctrl-C.
    #[arg(long, default_value = "25s")]
    grace: DurationMs,
    /// The program and its arguments, behind --.
    #[arg(last = true, required = true)]
    program: Vec<String>,
}

/// Works until SIGTERM or SIGINT.
pub(crate) async fn work(client: Client, arguments: WorkArguments) -> Result<(), CommandFailure> {
    let grace = arguments.grace.into();
    let mut worker = Worker::new(client).concurrency(arguments.concurrency.max(1));
    if let Some(name) = &arguments.name {
        worker = worker.name(name);
    }
    if let Some(lease) = arguments.lease {
        worker = worker.lease(lease.into());
    }
    let queues = arguments.queues.clone();
    let arguments = Arc::new(arguments);
    for queue in queues {
        let arguments = Arc::clone(&arguments);
        worker = worker.handle_raw(&queue, move |job: Job| {
            let arguments = Arc::clone(&arguments);
            async move { run(&arguments, job).await }
        });
    }
    worker.run_until(stopped()?).grace(grace).await?;
    Ok(())
}

/// Runs the program for one job.
async fn run(arguments: &WorkArguments, job: Job) -> Result<JobReply, Fail> {
    let mut child = start(arguments, &job).map_err(|error| {
        Fail::retry(format!("failed to start {}: {error}", arguments.program[0]))
    })?;
    let input = child.stdin.take();
    let payload = job.payload().to_vec();
    let feeding = tokio::spawn(async move {
        if let Some(mut input) = input {
            // A program need not read its input.
            drop(input.write_all(&payload).await);
        }
    });
    let output = child.stdout.take();
    let reading = tokio::spawn(async move {
        let mut bytes = Vec::new();
        if let Some(mut output) = output {
            output.read_to_end(&mut bytes).await?;
        }
        Ok::<_, std::io::Error>(bytes)
    });
    let errors = tokio::spawn(last_line(child.stderr.take()));
    let ended = tokio::select! {
        ended = child.wait() => ended,
        () = job.cancelled().cancelled() => end(&mut child).await,
    };
    feeding.abort();
    // A process that the program has left behind may keep the standard error open.
    let last_line = timeout(LINES_TIME, errors).await;
    let last_line = last_line.map_or_else(|_| String::new(), Result::unwrap_or_default);
    let ended = ended.map_err(Fail::retry)?;
    if ended.success() {
        let bytes = reading.await.map_err(Fail::retry)?.map_err(Fail::retry)?;
        return match &arguments.result {
            Some(content_type) => JobReply::bytes(bytes, content_type),
            None => Ok(JobReply::default()),
        };
    }
    let reason = match last_line.is_empty() {
        true => ended.to_string(),
        false => last_line,
    };
    Err(failure(arguments, ended, reason))
}

fn failure(arguments: &WorkArguments, ended: ExitStatus, reason: String) -> Fail {
    match ended.code() {
        Some(code) if code == arguments.dead_exit_code => Fail::dead(reason),
        _ => Fail::retry(reason),
    }
}

fn start(arguments: &WorkArguments, job: &Job) -> std::io::Result<Child> {
    let mut command = Command::new(&arguments.program[0]);
    command
        .args(&arguments.program[1..])
        .env("TIDEGATE_JOB_ID", job.id())
        .env("TIDEGATE_JOB_QUEUE", job.queue())
        .env("TIDEGATE_JOB_KEY", job.key().unwrap_or_default())
        .env("TIDEGATE_JOB_ATTEMPT", job.attempt().to_string())
        .env("TIDEGATE_JOB_FAILURES", job.failures().to_string())
        .env("TIDEGATE_JOB_CONTENT_TYPE", job.content_type())
        .envs(
            job.attributes()
                .map(|(name, value)| (variable(name), value)),
        )
        .stdin(Stdio::piped())
        .stdout(match arguments.result {
            Some(_) => Stdio::piped(),
            None => Stdio::inherit(),
        })
        .stderr(Stdio::piped())
        // Ctrl-C reaches the worker only, which gives its programs time.
        .process_group(0)
        .kill_on_drop(true);
    command.spawn()
}

/// The name of the variable of an attribute.
fn variable(attribute: &str) -> String {
    let known = |character: char| match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' => character.to_ascii_uppercase(),
        _ => '_',
    };
    let name: String = attribute.chars().map(known).collect();
    format!("TIDEGATE_ATTR_{name}")
}

/// Ends a program whose job is no longer its own.
async fn end(child: &mut Child) -> std::io::Result<ExitStatus> {
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    if let Some(pid) = pid {
        // It may have ended just now.
        let _ = kill_process(pid, Signal::TERM);
    }
    if let Ok(ended) = timeout(TERM_TIME, child.wait()).await {
        return ended;
    }
    child.kill().await?;
    child.wait().await
}

/// Passes the standard error of a program on, and returns its last line that is not empty.
async fn last_line(errors: Option<ChildStderr>) -> String {
    let mut last = String::new();
    let Some(errors) = errors else {
        return last;
    };
    let mut lines = BufReader::new(errors).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        let line = String::from_utf8_lossy(&line).into_owned();
        // Nothing is left to do if the standard error is closed.
        drop(writeln!(std::io::stderr(), "{line}"));
        if !line.trim().is_empty() {
            last = line;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_variables_that_a_shell_can_read() {
        assert_eq!(variable("trace-id"), "TIDEGATE_ATTR_TRACE_ID");
        assert_eq!(variable("ü.1"), "TIDEGATE_ATTR___1");
    }
}
