//! `tidegate work`: runs a program for each job.

mod program;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::num::NonZeroUsize;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tidegate::api::values::ContentType;
use tidegate::{Client, DurationMs, Fail, Job, JobReply, Worker};
use tokio::process::Command;
use tokio::sync::oneshot;
use tokio::time::timeout;

use self::program::RunningProgram;
use crate::failure::CommandFailure;
use crate::signals::CommandSignals;

/// How long the last lines of a program that has ended are waited for.
const LINES_TIME: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(
    after_help = "The payload is the standard input of the program. Its environment has:
  TG_JOB_ID, TG_JOB_QUEUE, TG_JOB_KEY, TG_JOB_ATTEMPT, TG_JOB_FAILURES,
  TG_JOB_CONTENT_TYPE, and TG_ATTR_<NAME> for each attribute (in capitals, other characters as _;
  further attributes with the same variable in the order of their names with _2, _3 …)

Exit code 0: the job is done. Other codes: it is retried by the policy of its queue, with the last line of the standard
error as the reason. The code of --dead-exit-code: it is dead. Leases are extended while the program runs. If the lease is
lost or the job is cancelled, the program and all processes of its group get SIGTERM, and SIGKILL 5 s later. SIGTERM or
Ctrl-C ends the worker: programs have --grace to end, then they are killed. A second one, at least a second later, kills
them at once.

Example:
  tidegate work close-unpaid -- sh -c 'jq .order | xargs close-order'"
)]
pub(crate) struct WorkArguments {
    /// The queues, in order of priority: a queue is served while all queues before it are empty.
    #[arg(required = true)]
    queues: Vec<String>,
    /// The name with which the worker is listed together with the jobs that it holds. Default: HOST:PID.
    #[arg(long)]
    name: Option<String>,
    /// The most programs that run at a time.
    #[arg(long, default_value_t = NonZeroUsize::MIN)]
    concurrency: NonZeroUsize,
    /// The length of a lease. Default: as set for the queue.
    #[arg(long)]
    lease: Option<DurationMs>,
    /// The exit code after which a job is dead at once.
    #[arg(long, default_value_t = 100)]
    dead_exit_code: i32,
    /// Takes the standard output of the program as the result of the job, with this content type.
    #[arg(long, value_name = "CONTENT-TYPE")]
    result: Option<ContentType>,
    /// The time for which programs may run on after SIGTERM or Ctrl-C.
    #[arg(long, default_value = "25s")]
    grace: DurationMs,
    /// The program and its arguments, behind --.
    #[arg(last = true, required = true)]
    program: Vec<String>,
}

/// Works until SIGTERM or SIGINT.
pub(crate) async fn work(client: Client, arguments: WorkArguments) -> Result<(), CommandFailure> {
    let grace = arguments.grace.into();
    program::find(&arguments.program[0])?;
    let mut worker = Worker::new(client)
        .concurrency(arguments.concurrency.get())
        .strict_order();
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
    let mut signals = CommandSignals::new()?;
    let (begin_stop, stop) = oneshot::channel();
    let running = worker.run_until(async { drop(stop.await) }).grace(grace);
    let stopped_twice = async {
        signals.next().await;
        // The worker may have ended just now.
        let _ = begin_stop.send(());
        signals.next().await;
    };
    tokio::select! {
        ended = running.into_future() => Ok(ended?),
        // All programs are killed when the process ends.
        () = stopped_twice => Err(CommandFailure::NotDone(
            "stopped by a second signal: the jobs of programs that ran are delivered again when their leases end".to_owned(),
        )),
    }
}

/// Runs the program for one job.
async fn run(arguments: &WorkArguments, job: Job) -> Result<JobReply, Fail> {
    let mut program = RunningProgram::start(command(arguments, &job)).map_err(|error| {
        Fail::retry(format!("failed to start {}: {error}", arguments.program[0]))
    })?;
    let feeding = program.feed(job.payload().to_vec());
    let result = program.read_output();
    let errors = program.pass_errors_on();
    let ended = tokio::select! {
        ended = program.wait() => ended,
        () = job.cancelled().cancelled() => program.end().await,
    };
    feeding.abort();
    // A process that the program has left behind may keep the standard error open.
    let last_line = timeout(LINES_TIME, errors).await;
    let last_line = last_line.map_or_else(|_| String::new(), Result::unwrap_or_default);
    let ended = ended.map_err(Fail::retry)?;
    // A program that writes more than is read fails because of that.
    let bytes = match timeout(LINES_TIME, result).await {
        Ok(read) => Some(read.map_err(Fail::retry)?.map_err(Fail::retry)?),
        Err(_) => None,
    };
    if ended.success() {
        let Some(bytes) = bytes else {
            return Err(Fail::retry(
                "the program ended, but a process that it left behind keeps its standard output open",
            ));
        };
        return match &arguments.result {
            Some(content_type) => JobReply::bytes(bytes, content_type.as_str()),
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

fn command(arguments: &WorkArguments, job: &Job) -> Command {
    let mut command = Command::new(&arguments.program[0]);
    command
        .args(&arguments.program[1..])
        .env("TG_JOB_ID", job.id().to_string())
        .env("TG_JOB_QUEUE", job.queue())
        .env("TG_JOB_KEY", job.key().unwrap_or_default())
        .env("TG_JOB_ATTEMPT", job.attempt().to_string())
        .env("TG_JOB_FAILURES", job.failures().to_string())
        .env("TG_JOB_CONTENT_TYPE", job.content_type())
        .envs(variables(job.attributes()))
        .stdout(match arguments.result {
            Some(_) => Stdio::piped(),
            None => Stdio::inherit(),
        });
    command
}

/// The variables of attributes. Of attributes that have the same variable, the first in the order of their names has
/// it; the names of the others end with `_2`, `_3` and so on.
fn variables<'a>(
    attributes: impl Iterator<Item = (&'a str, &'a str)>,
) -> BTreeMap<String, &'a str> {
    let attributes: BTreeMap<&str, &str> = attributes.collect();
    let mut variables = BTreeMap::new();
    let mut others = Vec::new();
    for (name, value) in attributes {
        match variables.entry(variable(name)) {
            Entry::Vacant(free) => drop(free.insert(value)),
            Entry::Occupied(taken) => others.push((taken.key().clone(), value)),
        }
    }
    for (name, value) in others {
        let mut numbered = (2..).map(|number| format!("{name}_{number}"));
        let free = numbered.find(|numbered| !variables.contains_key(numbered));
        variables.extend(free.map(|free| (free, value)));
    }
    variables
}

/// The name of the variable of an attribute.
fn variable(attribute: &str) -> String {
    let known = |character: char| match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' => character.to_ascii_uppercase(),
        _ => '_',
    };
    let name: String = attribute.chars().map(known).collect();
    format!("TG_ATTR_{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_variables_that_a_shell_can_read() {
        assert_eq!(variable("trace-id"), "TG_ATTR_TRACE_ID");
        assert_eq!(variable("ü.1"), "TG_ATTR___1");
    }

    #[test]
    fn attributes_with_the_same_variable_are_numbered() {
        let attributes = [
            ("a_b", "3"),
            ("a-b", "1"),
            ("a.b", "2"),
            ("a-b-2", "4"),
            ("c", "5"),
        ];
        let found = variables(attributes.into_iter());
        let expected = [
            ("A_B", "1"),
            ("A_B_2", "4"),
            ("A_B_3", "2"),
            ("A_B_4", "3"),
            ("C", "5"),
        ];
        let expected = expected.map(|(name, value)| (format!("TG_ATTR_{name}"), value));
        assert_eq!(found, expected.into());
    }
}
