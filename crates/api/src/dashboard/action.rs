//! What was done, as the page says that follows.

use axum::response::Redirect;

use super::links;

/// What was done, as the page says that follows.
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
}

const TEXTS: [(Done, &str, &str); 12] = [
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
    (
        Done::Respawned,
        "respawned",
        "The job is ready again, with all its attempts.",
    ),
    (Done::Purged, "purged", "The job is deleted."),
    (
        Done::Nothing,
        "nothing",
        "Nothing was changed: the job had moved on. This is where it is now.",
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
