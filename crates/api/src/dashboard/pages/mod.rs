//! The pages: one file each, with its `show`, and its `act` if it has forms.

pub(super) mod act;
pub(super) mod dead;
pub(super) mod job;
pub(super) mod jobs;
mod key_parts;
pub(super) mod keys;
mod list_changes;
pub(super) mod namespace;
mod namespaces;
mod new_key;
pub(super) mod overview;
mod parts;
pub(super) mod queue;
pub(super) mod queues;
pub(super) mod relay;
pub(super) mod relays;
pub(super) mod schedule;
pub(super) mod schedules;
pub(super) mod system;
pub(super) mod workers;
