//! Filters and actions as the engine takes them.

use std::time::Duration;

use tidegate_core::JobState;
use tidegate_core::v1::job::{ActBody, ActName, JobFilter};
use tidegate_core::v1::values::StateName;
use tidegate_engine::{JobAct, JobCriteria};

use super::job::{stored_change, stored_if_running};

/// The jobs that a list has.
pub(crate) fn list_criteria(filter: &JobFilter) -> JobCriteria {
    criteria(filter, &ALL_STATES)
}

/// The jobs that an action is for.
pub(crate) fn act_criteria(body: &ActBody) -> JobCriteria {
    criteria(&body.filter, body.act.states())
}

/// An action.
pub(crate) fn stored_act(body: &ActBody) -> JobAct {
    match body.act {
        ActName::Cancel => JobAct::Cancel(stored_if_running(body.running.unwrap_or_default())),
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

const ALL_STATES: [StateName; 5] = [
    StateName::Delayed,
    StateName::Ready,
    StateName::Leased,
    StateName::Dead,
    StateName::Done,
];

/// A filter as the engine takes it. Without a state it is for these.
fn criteria(filter: &JobFilter, states: &[StateName]) -> JobCriteria {
    let states = filter.state.as_ref().map_or(states, std::slice::from_ref);
    JobCriteria {
        states: states.iter().map(|state| job_state(*state)).collect(),
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

const fn job_state(state: StateName) -> JobState {
    match state {
        StateName::Delayed => JobState::Delayed,
        StateName::Ready => JobState::Ready,
        StateName::Leased => JobState::Leased,
        StateName::Dead => JobState::Dead,
        StateName::Done => JobState::Done,
    }
}
