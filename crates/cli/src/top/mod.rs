//! `tidegate top`: the queues of a namespace with their numbers of jobs, live.

mod rows;
mod screen;
mod view;

use std::io::IsTerminal;

use clap::Args;
use serde_json::{Value, json};
use tidegate::api::queue::QueueView;
use tidegate::{Client, DurationMs};

use crate::arguments::interval::interval;
use crate::failure::CommandFailure;
use crate::output::CommandOutput;
use rows::{QueueRow, SortColumn};

#[derive(Debug, Args)]
#[command(
    after_help = "Keys: q ends; up, down, page up, page down, home and end select a queue; n r d l x o c sort by name, ready, delayed,
leased, dead, done and change. \"/s\" is the change of the number before it each second, since the last look.

With --once, or if the standard output is no terminal, one table is printed.

Example:
  tidegate top --sort ready"
)]
pub(crate) struct TopArguments {
    /// The pause between two looks, at least 20ms. Each look takes one request for every 100 queues.
    #[arg(long, default_value = "2s", value_parser = interval)]
    interval: DurationMs,
    /// The column to sort by; numbers in descending order.
    #[arg(long, value_enum, default_value = "name")]
    sort: SortColumn,
    /// Prints one table and ends.
    #[arg(long)]
    once: bool,
}

/// Shows the queues until the user ends it; prints one table if there is no terminal.
///
/// # Errors
/// The first request fails, or the terminal cannot be used. Later requests are repeated.
pub(crate) async fn top(
    client: Client,
    title: String,
    arguments: &TopArguments,
    as_json: bool,
) -> Result<CommandOutput, CommandFailure> {
    let queues = client.queues().await?;
    if arguments.once || as_json || !std::io::stdout().is_terminal() {
        return once(queues, arguments.sort);
    }
    let rows = rows::TopRows::new(queues, arguments.sort);
    let interval = arguments.interval.into();
    screen::run(client, title, rows, interval).await?;
    Ok(CommandOutput::Bytes(Vec::new()))
}

fn once(queues: Vec<QueueView>, sort: SortColumn) -> Result<CommandOutput, CommandFailure> {
    let mut rows: Vec<QueueRow> = queues.into_iter().map(QueueRow::new).collect();
    sort.sort(&mut rows);
    let views: Vec<&QueueView> = rows.iter().map(|row| &row.view).collect();
    Ok(CommandOutput::shown(
        &views,
        rows.iter().map(shown).collect(),
    )?)
}

fn shown(row: &QueueRow) -> Value {
    let jobs = row.view.jobs;
    json!({
        "queue": row.view.queue, "ready": jobs.ready, "delayed": jobs.delayed, "leased": jobs.leased, "dead": jobs.dead,
        "done": jobs.done, "state": row.state(),
    })
}
