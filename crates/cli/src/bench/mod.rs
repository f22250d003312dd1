//! `tidegate bench`: publishes and consumes for a while on a queue of its own, and prints rates and latencies.

mod arguments;
mod load;
mod report;

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Client, Error, PurgeState, QueueHandle};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::sleep;

use crate::failure::CommandFailure;
use crate::output::CommandOutput;
use crate::signals::CommandSignals;
pub(crate) use arguments::BenchArguments;
use load::{BenchLoad, LoadCounts, LoadTask};
use report::BenchReport;

/// How long consumers have for the jobs that are left when the time is over.
const DRAIN_TIME: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How often a request of the clean-up is sent while the server does not answer.
const CLEAN_UP_ATTEMPTS: u32 = 5;
const CLEAN_UP_PAUSE: Duration = Duration::from_secs(1);

/// Runs the load and deletes the remaining jobs. The first signal ends the load early, the second signal the wait for
/// the last jobs. Further signals end the waits for requests in flight and for the deletion: the server may not answer.
///
/// # Errors
/// The queue has jobs; a request fails for another reason than a server that is unavailable for a while.
pub(crate) async fn bench(
    client: Client,
    arguments: &BenchArguments,
    as_json: bool,
) -> Result<CommandOutput, CommandFailure> {
    let random = || format!("bench-{}", ulid::Ulid::generate()).to_lowercase();
    let name = arguments.queue.clone().unwrap_or_else(random);
    let queue = client.queue(&name)?;
    refuse_used(&queue).await?;
    let load = Arc::new(BenchLoad::new(client, &name, arguments)?);
    let mut signals = CommandSignals::new()?;
    let measured = measure(&load, arguments, &mut signals).await;
    let left = tokio::select! {
        left = clean_up(&queue, arguments.queue.is_some()) => left,
        () = signals.next() => Err(interrupted(&name)),
    };
    let (counts, seconds) = measured?;
    let report = BenchReport::new(name, arguments, counts, seconds, left?);
    report.output(as_json)
}

async fn refuse_used(queue: &QueueHandle) -> Result<(), CommandFailure> {
    let jobs = queue.stats().await?.jobs;
    match jobs.delayed + jobs.ready + jobs.leased + jobs.dead + jobs.done {
        0 => Ok(()),
        number => Err(CommandFailure::NotDone(format!(
            "the queue {} has {number} jobs, which would be taken; use another queue",
            queue.name()
        ))),
    }
}

/// Returns the counts, and for how many seconds jobs were published.
async fn measure(
    load: &Arc<BenchLoad>,
    arguments: &BenchArguments,
    signals: &mut CommandSignals,
) -> Result<(LoadCounts, f64), CommandFailure> {
    let tasks = load.start(arguments.connections);
    tokio::select! {
        () = sleep(arguments.time.into()) => {}
        () = signals.next() => {}
        () = load.failed() => {}
    }
    let seconds = load.stop_publishing();
    let drained = async {
        while !load.is_drained() {
            sleep(POLL_INTERVAL).await;
        }
    };
    tokio::select! {
        () = drained => {}
        () = sleep(DRAIN_TIME) => {}
        () = signals.next() => {}
        () = load.failed() => {}
    }
    load.stop_consuming();
    let aborts: Vec<AbortHandle> = tasks.iter().map(JoinHandle::abort_handle).collect();
    let mut counts = tokio::select! {
        counts = total(tasks) => counts?,
        () = signals.next() => {
            aborts.iter().for_each(AbortHandle::abort);
            return Err(interrupted(load.queue()));
        }
    };
    load.complete(&mut counts);
    Ok((counts, seconds))
}

/// The work of all tasks, once they have ended.
async fn total(tasks: Vec<LoadTask>) -> Result<LoadCounts, CommandFailure> {
    let mut counts = LoadCounts::default();
    for task in tasks {
        let ended = task.await;
        let part = ended.map_err(|error| CommandFailure::NotDone(error.to_string()))?;
        counts.add(&part?);
    }
    Ok(counts)
}

fn interrupted(queue: &str) -> CommandFailure {
    CommandFailure::NotDone(format!(
        "interrupted before the server had answered; the queue {queue} may have jobs: tidegate queue purge {queue} deletes them"
    ))
}

/// Deletes jobs in this state. How many is not asked, so the request may be sent again after an answer was lost.
async fn purge(queue: &QueueHandle, state: PurgeState) -> Result<(), Error> {
    let mut purged = queue.purge(state).await;
    for _ in 1..CLEAN_UP_ATTEMPTS {
        if !purged.as_ref().is_err_and(Error::is_temporary) {
            break;
        }
        sleep(CLEAN_UP_PAUSE).await;
        purged = queue.purge(state).await;
    }
    purged.map(drop)
}

/// Deletes ready and dead jobs, and the queue itself unless it was named. Returns how many jobs it still has.
async fn clean_up(queue: &QueueHandle, is_named: bool) -> Result<u64, CommandFailure> {
    for state in [PurgeState::Ready, PurgeState::Dead] {
        purge(queue, state).await?;
    }
    if !is_named {
        queue.delete_if_empty().await?;
    }
    let jobs = queue.stats().await?.jobs;
    Ok(jobs.delayed + jobs.ready + jobs.leased + jobs.dead)
}
