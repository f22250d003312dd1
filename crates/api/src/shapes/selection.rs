//! Filters and actions as the engine takes them.

use std::time::Duration;

use tidegate_core::JobState;
use tidegate_core::v1::job::{ActBody, ActName, JobFilter};
use tidegate_engine::{JobAct, JobCriteria};

use super::job::stored_change;

/// The jobs that a list has.
pub(crate) fn list_criteria(filter: &JobFilter) -> JobCriteria {
    criteria(filter, &JobState::ALL)
}

/// The jobs that an action is for.
pub(crate) fn act_criteria(body: &ActBody) -> JobCriteria {
    criteria(&body.filter, body.act.states())
}

/// An action.
pub(crate) fn stored_act(body: &ActBody) -> JobAct {
    match body.act {
        ActName::Cancel => JobAct::Cancel(body.running.unwrap_or_default()),
        ActName::Promote => JobAct::Promote,
        ActName::Respawn => {
            let space = body
                .rate_per_second
                .map(|rate| Duration::from_secs(1) / rate.get());
            JobAct::Respawn(space.unwrap_or_default())
        }
        ActName::Purge => JobAct::Purge,
        ActName::Change => JobAct::Change(stored_change(&body.change.clone().unwrap_or_default())),
    }
}

/// A filter as the engine takes it. Without a state it is for these.
fn criteria(filter: &JobFilter, states: &[JobState]) -> JobCriteria {
    let states = filter.state.as_ref().map_or(states, std::slice::from_ref);
    JobCriteria {
        states: states.to_vec(),
        from_ms: filter.due_from.map_or(0, |from| from.as_ms()),
        before_ms: filter
            .due_before
            .map_or(i64::MAX as u64, |before| before.as_ms()),
        key_prefix: filter.key_prefix.clone().map(Into::into),
        attribute: filter.attribute.as_ref().map(|attribute| {
            let (name, value) = attribute.parts();
            (name.to_owned(), value.to_owned())
        }),
        error_contains: filter.error_contains.clone().map(Into::into),
        error_digest: None,
    }
}
