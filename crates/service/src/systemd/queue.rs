//! Messages that wait to be sent, in their order.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// States that are sent together.
pub(super) type Message = Vec<NotifyState<'static>>;

/// Messages that wait. A start, some reloads and a stop.
const WAITING_MAX: usize = 16;

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Message>,
    is_sending: bool,
}

impl Queue {
    /// Adds a message, and never blocks. A sign of life is not added if one waits already. If the queue is full a
    /// sign of life is dropped, and for another message the oldest one, since a later state replaces an earlier
    /// one. Returns whether all states are kept.
    pub(super) fn push(&self, message: Message) -> bool {
        let mut state = self.lock();
        let waiting = &mut state.waiting;
        let is_full = waiting.len() >= WAITING_MAX;
        if is_sign_of_life(&message) && (is_full || waiting.iter().any(is_sign_of_life)) {
            return true;
        }
        if is_full {
            waiting.pop_front();
        }
        waiting.push_back(message);
        self.changed.notify_all();
        !is_full
    }

    /// Sends messages as they come, for ever.
    pub(super) fn send_each(&self, send: impl Fn(&Message)) {
        let mut state = self.lock();
        loop {
            if let Some(message) = state.waiting.pop_front() {
                state.is_sending = true;
                drop(state);
                send(&message);
                state = self.lock();
                state.is_sending = false;
                self.changed.notify_all();
            } else {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Waits until all messages are sent, but not longer than `limit`. Returns whether they are.
    pub(super) fn wait_until_sent(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut state = self.lock();
        while state.is_sending || !state.waiting.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// The state is consistent after each change, so a panic of another thread does no harm.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_sign_of_life(message: &Message) -> bool {
    matches!(message[..], [NotifyState::Watchdog])
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::thread;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    fn texts(queue: &Queue) -> Vec<String> {
        let state = queue.lock();
        let text = |message: &Message| message[0].to_string();
        state.waiting.iter().map(text).collect()
    }

    #[test]
    fn a_full_queue_keeps_the_last_states_and_one_sign_of_life() {
        let queue = Queue::default();
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
    fn a_message_that_cannot_be_sent_holds_up_no_caller() {
        let queue = Arc::new(Queue::default());
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
