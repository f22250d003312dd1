//! Which history of writes a server is in.
//!
//! A server that was restarted, or was a replica for a while, may have other data than before, under the same
//! address and even over the same connections. A restart changes `run_id`, and the end of a time as a replica changes
//! `master_replid` and leaves the previous one in `master_replid2`. What was written after both were read, and before both
//! were read again unchanged, is part of that history.
//!
//! A server also takes a new `master_replid` when its first replica attaches, or has been gone for `repl-backlog-ttl`. Then
//! nothing was lost: the process is the same, and `master_replid2` is empty.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

#[derive(Debug, Default)]
pub(super) struct History(Mutex<Option<Known>>);

#[derive(Debug)]
struct Known {
    ids: Ids,
    /// When the history was seen first, without another one since.
    since: Instant,
}

/// What `INFO server replication` says about the history.
#[derive(Debug)]
struct Ids {
    run: String,
    replication: String,
    /// Whether the server has another replication id from before, as after a time as a replica.
    has_previous: bool,
}

impl History {
    pub(super) fn is_known(&self) -> bool {
        self.lock().is_some()
    }

    /// The server may have been restarted.
    pub(super) fn forget(&self) {
        *self.lock() = None;
    }

    /// Takes in what the server answered to `INFO server replication`. Whether a call sent at `sent_at` that it
    /// carried out, before it was asked, is part of the history that it is in.
    pub(super) fn includes(&self, sent_at: Instant, info: &str) -> bool {
        self.since(info).is_some_and(|since| since <= sent_at)
    }

    /// Takes in an answer; since when its history is known.
    pub(super) fn since(&self, info: &str) -> Option<Instant> {
        let ids = Ids::read(info)?;
        let mut known = self.lock();
        let since = match &*known {
            Some(known) if ids.continue_from(&known.ids) => known.since,
            _ => Instant::now(),
        };
        *known = Some(Known { ids, since });
        Some(since)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ids {
    fn read(info: &str) -> Option<Self> {
        let field = |name: &str| {
            let mut lines = info
                .lines()
                .filter_map(|line| line.trim_end().split_once(':'));
            lines.find_map(|(key, value)| (key == name).then_some(value))
        };
        let previous = field("master_replid2").unwrap_or_default();
        Some(Self {
            run: field("run_id")?.to_owned(),
            replication: field("master_replid")?.to_owned(),
            has_previous: previous.bytes().any(|byte| byte != b'0'),
        })
    }

    /// Whether the server has lost nothing since it had the other ids.
    fn continue_from(&self, before: &Self) -> bool {
        let is_same_id = self.replication == before.replication;
        self.run == before.run && (is_same_id || !self.has_previous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: &str = "0000000000000000000000000000000000000000";

    fn info(run: &str, replid: &str, replid2: &str) -> String {
        format!(
            "# Server\r\nrun_id:{run}\r\n# Replication\r\nrole:master\r\nmaster_replid:{replid}\r\n\
             master_replid2:{replid2}\r\n"
        )
    }

    #[test]
    fn only_what_was_sent_between_two_answers_of_the_same_history_is_included() {
        let history = History::default();
        let (one, restarted) = (info("run", "aaa", NONE), info("next", "bbb", NONE));
        let before = Instant::now();
        assert!(!history.is_known());
        assert!(!history.includes(before, &one));
        let after = Instant::now();
        assert!(history.includes(after, &one) && history.is_known());
        assert!(!history.includes(before, &one));
        assert!(!history.includes(after, &restarted), "restarted");
        assert!(!history.includes(after, &restarted));
        assert!(history.includes(Instant::now(), &restarted));
        history.forget();
        let after = Instant::now();
        assert!(!history.includes(before, &restarted));
        assert!(!history.includes(after, "role:master"), "no id");
    }

    #[test]
    fn a_first_replica_begins_no_other_history_and_a_time_as_replica_does() {
        let history = History::default();
        let _ = history.since(&info("run", "aaa", NONE));
        let sent_at = Instant::now();
        assert!(history.includes(sent_at, &info("run", "bbb", NONE)));
        assert!(history.includes(sent_at, &info("run", "bbb", NONE)));
        assert!(!history.includes(sent_at, &info("run", "ccc", "bbb")));
        assert!(history.includes(Instant::now(), &info("run", "ccc", "bbb")));
    }
}
