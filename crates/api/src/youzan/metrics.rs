//! The metrics of commands. Statuses do not show failures, since they are 200 in any case.

use std::sync::LazyLock;

use prometheus::IntCounterVec;
use tidegate_daemon::metrics::counters;

use super::answer::CommandResult;
use super::error::YouzanError;
use super::request::CommandName;

static COMMANDS: LazyLock<IntCounterVec> = LazyLock::new(|| {
    counters(
        "tidegate_youzan_commands_total",
        "Number of commands of Youzan's protocol, by outcome.",
        &["command", "outcome"],
    )
});

/// Counts a command; `None` = a request that has no known command.
pub(super) fn count(command: Option<CommandName>, result: &Result<CommandResult, YouzanError>) {
    let command = command.map_or("unknown", CommandName::label);
    let outcome = match result {
        Ok(CommandResult::Nothing) => "nothing",
        Ok(_) => "success",
        Err(error) if error.is_rejection() => "rejected",
        Err(_) => "failed",
    };
    COMMANDS.with_label_values(&[command, outcome]).inc();
}
