//! Which history of writes a server is in.
//!
//! A server that was restarted, or was a replica for a while, may have other data than before, under the same
//! address and even over the same connections. It then has another replication id, and no id comes twice. So what
//! was written after an id was heard, and before the same id was heard again, is part of that history.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

#[derive(Debug, Default)]
pub(super) struct History(Mutex<Option<Known>>);

#[derive(Debug)]
struct Known {
    id: String,
    /// When it was heard first, without another one since.
    since: Instant,
}

impl History {
    pub(super) fn is_known(&self) -> bool {
        self.lock().is_some()
    }

    /// The server may have been restarted.
    pub(super) fn forget(&self) {
        *self.lock() = None;
    }

    /// Takes in what the server answered to `INFO replication`. Whether a call sent at `sent_at` that it
    /// carried out, before it was asked, is part of the history that it is in.
    pub(super) fn includes(&self, sent_at: Instant, info: &str) -> bool {
        self.since(info).is_some_and(|since| since <= sent_at)
    }

    /// Takes in an answer; since when its history is known.
    pub(super) fn since(&self, info: &str) -> Option<Instant> {
        let mut lines = info.lines();
        let id = lines.find_map(|line| line.trim_end().strip_prefix("master_replid:"))?;
        let mut known = self.lock();
        match &*known {
            Some(known) if known.id == id => Some(known.since),
            _ => {
                let since = Instant::now();
                let id = id.to_owned();
                *known = Some(Known { id, since });
                Some(since)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "# Replication\r\nrole:master\r\nmaster_replid:aaa\r\nmaster_replid2:000\r\n";
    const OTHER: &str =
        "# Replication\r\nrole:master\r\nmaster_replid:bbb\r\nmaster_replid2:000\r\n";

    #[test]
    fn only_what_was_sent_between_two_answers_of_the_same_id_is_included() {
        let history = History::default();
        let before = Instant::now();
        assert!(!history.is_known());
        assert!(!history.includes(before, ONE));
        let after = Instant::now();
        assert!(history.includes(after, ONE) && history.is_known());
        assert!(!history.includes(before, ONE));
        assert!(!history.includes(after, OTHER), "the server began anew");
        assert!(!history.includes(after, OTHER));
        assert!(history.includes(Instant::now(), OTHER));
        history.forget();
        let after = Instant::now();
        assert!(!history.includes(before, OTHER));
        assert!(!history.includes(after, "role:master"), "no id");
    }
}
