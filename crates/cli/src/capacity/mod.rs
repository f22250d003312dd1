//! How many servers a load needs: a calculation from measured costs. It contacts no server.

mod costs;
mod load;
mod plan;
mod report;

use crate::failure::CommandFailure;
use crate::output::CommandOutput;
pub(crate) use load::CapacityArguments;
use plan::CapacityPlan;

/// Calculates the plan for a load, and shows it.
///
/// # Errors
/// The plan cannot be encoded as JSON.
pub(crate) fn capacity(
    load: &CapacityArguments,
    as_json: bool,
) -> Result<CommandOutput, CommandFailure> {
    let plan = CapacityPlan::of(load);
    match as_json {
        true => Ok(CommandOutput::answer(&plan)?),
        false => Ok(CommandOutput::Bytes(report::text(&plan).into_bytes())),
    }
}
