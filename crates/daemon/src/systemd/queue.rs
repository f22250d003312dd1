//! Queue of messages to the service manager, in order.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use sd_notify::NotifyState;

/// States that are sent in one datagram.
pub(super) type NotifyMessage = Vec<NotifyState<'static>>;

/// Capacity: enough for a start, several reloads and a stop.
const WAITING_MAX: usize = 16;

#[derive(Default)]
pub(super) struct NotifyQueue {
    state: Mutex<NotifyQueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct NotifyQueueState {
    waiting: VecDeque<NotifyMessage>,
    is_sending: bool,
}

impl NotifyQueue {
    /// Adds a message without blocking. A watchdog message is skipped if another is queued already, or if the queue
    /// is full. Any other message replaces the oldest one if the queue is full, since a later state supersedes an
    /// earlier one. Returns false if that dropped a message.
    pub(super) fn push(&self, message: NotifyMessage) -> bool {
        let mut state = self.state.lock();
        let waiting = &mut state.waiting;
        let is_full = waiting.len() >= WAITING_MAX;
        if is_watchdog_message(&message) && (is_full || waiting.iter().any(is_watchdog_message)) {
            return true;
        }
        if is_full {
            waiting.pop_front();
        }
        waiting.push_back(message);
        self.changed.notify_all();
        !is_full
    }

    /// Sends messages as they arrive; never returns.
    pub(super) fn send_each(&self, send: impl Fn(&NotifyMessage)) {
        let mut state = self.state.lock();
        loop {
            if let Some(message) = state.waiting.pop_front() {
                state.is_sending = true;
                MutexGuard::unlocked(&mut state, || send(&message));
                state.is_sending = false;
                self.changed.notify_all();
            } else {
                self.changed.wait(&mut state);
            }
        }
    }

    /// Waits until all messages are sent, for at most `limit`. Returns whether they are.
    pub(super) fn wait_until_sent(&self, limit: Duration) -> bool {
        let mut state = self.state.lock();
        let is_unsent =
            |state: &mut NotifyQueueState| state.is_sending || !state.waiting.is_empty();
        let waited = self.changed.wait_while_for(&mut state, is_unsent, limit);
        !waited.timed_out()
    }
}

fn is_watchdog_message(message: &NotifyMessage) -> bool {
    matches!(message[..], [NotifyState::Watchdog])
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "between threads of a test")]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::Instant;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    fn texts(queue: &NotifyQueue) -> Vec<String> {
        let state = queue.state.lock();
        let text = |message: &NotifyMessage| message[0].to_string();
        state.waiting.iter().map(text).collect()
    }

    #[test]
    fn a_full_queue_keeps_the_last_states_and_one_watchdog_message() {
        let queue = NotifyQueue::default();
        for _ in 0..3 {
            assert!(queue.push(vec![NotifyState::Watchdog]));
        }
        assert!(queue.push(vec![NotifyState::Ready]));
        assert_eq!(texts(&queue), ["WATCHDOG=1", "READY=1"]);
        for _ in 0..WAITING_MAX - 2 {
            assert!(queue.push(vec![NotifyState::Ready]));
        }
        assert!(!queue.push(vec![NotifyState::Reloading]));
        assert!(!queue.push(vec![NotifyState::Stopping]));
        queue.push(vec![NotifyState::Watchdog]);
        let texts = texts(&queue);
        assert_eq!(texts.len(), WAITING_MAX);
        assert_eq!(texts[0], "READY=1");
        assert_eq!(texts[WAITING_MAX - 2..], ["RELOADING=1", "STOPPING=1"]);
    }

    #[test]
    fn a_message_that_cannot_be_sent_blocks_no_caller() {
        let queue = Arc::new(NotifyQueue::default());
        let (begun, beginnings) = mpsc::channel();
        let (room, rooms) = mpsc::channel();
        let sending = Arc::clone(&queue);
        thread::spawn(move || {
            sending.send_each(|message| {
                begun.send(message[0].to_string()).unwrap();
                rooms.recv().unwrap();
            });
        });
        queue.push(vec![NotifyState::Ready]);
        assert_eq!(beginnings.recv_timeout(LIMIT).unwrap(), "READY=1");
        queue.push(vec![NotifyState::Stopping]);
        let begin = Instant::now();
        assert!(!queue.wait_until_sent(Duration::from_millis(20)));
        assert!(begin.elapsed() < LIMIT);
        room.send(()).unwrap();
        assert_eq!(beginnings.recv_timeout(LIMIT).unwrap(), "STOPPING=1");
        room.send(()).unwrap();
        assert!(queue.wait_until_sent(LIMIT));
    }
}
