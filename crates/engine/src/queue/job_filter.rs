//! Which jobs of a queue match a filter. Scripts check states and times, this process the rest.

use tidegate_core::v1::job::{ErrorDigest, JobFilter};
use tidegate_core::{GROUP_ATTRIBUTE, JobState, KEY_ATTRIBUTE};
use tidegate_store::{JobSelection, ListedJob};

/// The part of a filter that the store checks, and the fields that it has to read for the rest; `states` are the states
/// of a filter that names none.
pub(super) fn selection(filter: &JobFilter, states: &[JobState]) -> JobSelection {
    JobSelection {
        states: filter.states(states).to_vec(),
        from_ms: filter.due_from.map_or(0, |from| from.as_ms()),
        before_ms: filter
            .due_before
            .map_or(i64::MAX as u64, |before| before.as_ms()),
        with_attributes: filter.key_prefix.is_some()
            || filter.group.is_some()
            || filter.attribute.is_some(),
        with_failures: filter.error_contains.is_some() || filter.error_digest.is_some(),
    }
}

/// Whether a job that the store has selected matches the filter. Jobs that are done have no attributes, so they match
/// no filter with a key, a group or an
/// attribute.
pub(super) fn matches(filter: &JobFilter, listed: &ListedJob) -> bool {
    let attribute = |name: &str| listed.job.attribute(name);
    let last = listed.last_failure.as_ref();
    let last = last.map(|failure| &*failure.error);
    let has_key =
        |prefix: &str| attribute(KEY_ATTRIBUTE).is_some_and(|key| key.starts_with(prefix));
    filter
        .key_prefix
        .as_ref()
        .is_none_or(|prefix| has_key(prefix.as_str()))
        && filter
            .group
            .as_ref()
            .is_none_or(|group| attribute(GROUP_ATTRIBUTE) == Some(group.as_str()))
        && filter.attribute.as_ref().is_none_or(|wanted| {
            let (name, value) = wanted.parts();
            attribute(name) == Some(value)
        })
        && filter
            .error_contains
            .as_ref()
            .is_none_or(|text| last.is_some_and(|last| last.contains(text.as_str())))
        && filter
            .error_digest
            .is_none_or(|digest| digest == ErrorDigest::of(last))
}
