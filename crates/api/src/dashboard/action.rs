//! The outcome of an action, for the next page and for the log.

use axum::response::Redirect;
use tidegate_core::QueueKey;
use tidegate_store::NamespacedName;

use super::links;

/// The object of an action, for the log.
#[derive(Debug, Clone, Copy)]
pub(super) enum ActionTarget<'a> {
    /// A queue of a pool, or jobs of it.
    Queue(&'a str, &'a QueueKey),
    /// A schedule of a pool.
    Schedule(&'a str, &'a NamespacedName),
    Relay(&'a NamespacedName),
    /// An API key, by its id.
    ApiKey(&'a str),
}

/// The outcome of an action, for the next page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    Paused,
    Resumed,
    Closed,
    Opened,
    Limited,
    Cancelled,
    CancelRequested,
    Promoted,
    Changed,
    Respawned,
    Purged,
    /// The job had moved on.
    Nothing,
    SchedulePaused,
    ScheduleResumed,
    ScheduleDeleted,
    RelayPaused,
    RelayResumed,
    KeyRevoked,
    KeyGone,
    /// The page from which the form was sent was out of date.
    Stale,
}

const TEXTS: [(Done, &str, &str); 20] = [
    (
        Done::Paused,
        "paused",
        "The queue is paused: its jobs are not delivered.",
    ),
    (
        Done::Resumed,
        "resumed",
        "The queue is delivered from again.",
    ),
    (Done::Closed, "closed", "The queue takes no new jobs."),
    (Done::Opened, "opened", "The queue takes new jobs again."),
    (
        Done::Limited,
        "limited",
        "The limit of running jobs is set. Leases that exceed it stay.",
    ),
    (Done::Cancelled, "cancelled", "The job is cancelled."),
    (
        Done::CancelRequested,
        "cancel-requested",
        "Its worker is asked to stop. The job is deleted when this attempt ends without success.",
    ),
    (Done::Promoted, "promoted", "The job is ready now."),
    (Done::Changed, "changed", "The job is due at the new time."),
    (Done::Respawned, "respawned", "The job is ready again."),
    (Done::Purged, "purged", "The job is deleted."),
    (
        Done::Nothing,
        "nothing",
        "Nothing was changed: the job had moved on. This is where it is now.",
    ),
    (
        Done::SchedulePaused,
        "schedule-paused",
        "The schedule is paused: it publishes no jobs.",
    ),
    (
        Done::ScheduleResumed,
        "schedule-resumed",
        "The schedule publishes jobs again, from its next tick on.",
    ),
    (
        Done::ScheduleDeleted,
        "schedule-deleted",
        "The schedule is deleted.",
    ),
    (
        Done::RelayPaused,
        "relay-paused",
        "The relay is paused: its daemons take no more jobs within a second.",
    ),
    (
        Done::RelayResumed,
        "relay-resumed",
        "The relay runs again: its daemons take jobs within a second.",
    ),
    (
        Done::KeyRevoked,
        "key-revoked",
        "The key is revoked: it is refused within a second.",
    ),
    (
        Done::KeyGone,
        "key-gone",
        "Nothing was changed: there is no such key any more.",
    ),
    (
        Done::Stale,
        "stale",
        "Nothing was changed: your page was out of date. This is how it is now.",
    ),
];

/// The text for the parameter `done`; `None` if it is unknown.
pub(super) fn done_text(code: &str) -> Option<&'static str> {
    let found = TEXTS.iter().find(|(_, known, _)| *known == code);
    found.map(|(_, _, text)| *text)
}

/// Leads to a page that says what was done.
pub(super) fn then(link: &str, done: Done) -> Redirect {
    let code = TEXTS.iter().find(|(other, _, _)| *other == done);
    let code = code.map_or("", |(_, code, _)| code);
    Redirect::to(&links::with_query(link, [("done", code)]))
}
