//! The replication history of a server.
//!
//! A server that was restarted, or was a replica for some time, may have other data than before, at the same address
//! and even on the same connections. A restart changes `run_id`. A promotion changes `master_replid`, and the previous
//! value is in `master_replid2`. A write that was sent after both were read, and before both were read again unchanged,
//! is part of this history.
//!
//! A server also changes its `master_replid` when its first replica connects, or when it has had none for
//! `repl-backlog-ttl`. Then no write was lost: the process is the same, and `master_replid2` is empty.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

#[derive(Debug, Default)]
pub(crate) struct ReplicationHistory(Mutex<Option<KnownHistory>>);

#[derive(Debug)]
struct KnownHistory {
    ids: HistoryIds,
    /// Since when this history is known without interruption.
    since: Instant,
}

/// The fields of `INFO server replication` that identify the history.
#[derive(Debug)]
struct HistoryIds {
    run: String,
    replication: String,
    /// Whether the server has a previous replication id, as after a promotion.
    has_previous: bool,
}

impl ReplicationHistory {
    pub(super) fn is_known(&self) -> bool {
        self.lock().is_some()
    }

    /// Forgets the history, because the server may have been restarted.
    pub(crate) fn forget(&self) {
        *self.lock() = None;
    }

    /// Records a reply to `INFO server replication`. Returns whether a call that was sent at `sent_at`, and executed
    /// before this reply, is part of the current history.
    pub(super) fn includes(&self, sent_at: Instant, info: &str) -> bool {
        self.since(info).is_some_and(|since| since <= sent_at)
    }

    /// Records a reply. Returns since when its history is known; `None` if the reply has no ids.
    pub(crate) fn since(&self, info: &str) -> Option<Instant> {
        let ids = HistoryIds::read(info)?;
        let mut known = self.lock();
        let since = match &*known {
            Some(known) if ids.continue_from(&known.ids) => known.since,
            _ => Instant::now(),
        };
        *known = Some(KnownHistory { ids, since });
        Some(since)
    }

    fn lock(&self) -> MutexGuard<'_, Option<KnownHistory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HistoryIds {
    fn read(info: &str) -> Option<Self> {
        let field = |name: &str| {
            let mut lines = info
                .lines()
                .filter_map(|redis_connection| redis_connection.trim_end().split_once(':'));
            lines.find_map(|(key, value)| (key == name).then_some(value))
        };
        let previous = field("master_replid2").unwrap_or_default();
        Some(Self {
            run: field("run_id")?.to_owned(),
            replication: field("master_replid")?.to_owned(),
            has_previous: previous.bytes().any(|byte| byte != b'0'),
        })
    }

    /// Whether the server has lost no write since it had the ids `before`.
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
        let history = ReplicationHistory::default();
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
        let history = ReplicationHistory::default();
        let _ = history.since(&info("run", "aaa", NONE));
        let sent_at = Instant::now();
        assert!(history.includes(sent_at, &info("run", "bbb", NONE)));
        assert!(history.includes(sent_at, &info("run", "bbb", NONE)));
        assert!(!history.includes(sent_at, &info("run", "ccc", "bbb")));
        assert!(history.includes(Instant::now(), &info("run", "ccc", "bbb")));
    }
}
