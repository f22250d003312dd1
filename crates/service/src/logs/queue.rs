//! A bounded queue of log lines, and the thread that writes them.
//!
//! A caller never waits for a write: the reader of standard error may have stopped, a disk may be full or
//! may not answer. Lines that do not fit are dropped and counted.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tracing_subscriber::fmt::MakeWriter;

use super::escape::escaped;

/// Bytes of lines that wait for the thread. As many may be in the write that it works on.
pub(super) const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;
/// A buffer that has become larger is not kept.
const KEPT_BYTES_MAX: usize = 64 * 1024;

static LINES_LOST: AtomicU64 = AtomicU64::new(0);

/// Number of lines that this process has dropped since its start.
pub(crate) fn lines_lost() -> u64 {
    LINES_LOST.load(Ordering::Relaxed)
}

/// The end of a queue where lines are put in. It never blocks and never fails.
#[derive(Clone)]
pub(super) struct LineWriter(pub(super) Arc<Queue>);

impl Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(&escaped(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LineWriter {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// Wakes the thread: there are lines, or there will be none.
    changed: Condvar,
    /// Wakes those that wait for the end: all lines are written.
    written: Condvar,
    lost: AtomicU64,
}

#[derive(Default)]
struct State {
    waiting: Vec<u8>,
    /// Whether the thread waits for lines.
    is_idle: bool,
    is_closed: bool,
}

impl Queue {
    fn push(&self, line: &[u8]) {
        let mut state = self.lock();
        if state.is_closed || state.waiting.len() + line.len() > WAITING_BYTES_MAX {
            drop(state);
            return self.lose(1);
        }
        state.waiting.extend_from_slice(line);
        // A wake is a system call: only if the thread sleeps.
        if std::mem::take(&mut state.is_idle) {
            self.changed.notify_one();
        }
    }

    /// Waits for lines and takes all that are there; `None` once the queue is closed and empty. The buffer
    /// of the lines before is used again.
    pub(super) fn take(&self, mut spent: Vec<u8>) -> Option<Vec<u8>> {
        spent.clear();
        if spent.capacity() > KEPT_BYTES_MAX {
            spent = Vec::new();
        }
        let mut state = self.lock();
        while state.waiting.is_empty() {
            state.is_idle = true;
            self.written.notify_all();
            if state.is_closed {
                return None;
            }
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.is_idle = false;
        Some(std::mem::replace(&mut state.waiting, spent))
    }

    /// Accepts no more lines, and waits until those before are written, but not beyond `deadline`.
    pub(super) fn close(&self, deadline: Instant) {
        let mut state = self.lock();
        state.is_closed = true;
        self.changed.notify_one();
        while !(state.waiting.is_empty() && state.is_idle) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.written.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    pub(super) fn lose(&self, lines: u64) {
        self.lost.fetch_add(lines, Ordering::Relaxed);
        LINES_LOST.fetch_add(lines, Ordering::Relaxed);
    }

    /// Number of lines that did not fit or could not be written.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// The state is consistent after each change, so a panic of another thread does no harm.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// Nothing takes lines out of this queue.
    #[test]
    fn a_full_queue_drops_lines_counts_them_and_does_not_block() {
        let queue = Arc::new(Queue::default());
        let mut writer = LineWriter(Arc::clone(&queue));
        let line = [b'x'; 1024];
        for _ in 0..WAITING_BYTES_MAX / line.len() {
            writer.write_all(&line).unwrap();
        }
        assert_eq!(queue.lost(), 0);
        for _ in 0..3 {
            writer.write_all(&line).unwrap();
        }
        assert_eq!(queue.lost(), 3);
        assert!(lines_lost() >= 3);
        assert_eq!(queue.take(Vec::new()).unwrap().len(), WAITING_BYTES_MAX);
        writer.write_all(&line).unwrap();
        assert_eq!(queue.take(Vec::new()).unwrap(), line);
    }

    #[test]
    fn a_close_waits_for_the_thread_but_not_for_ever() {
        let queue = Arc::new(Queue::default());
        let mut writer = LineWriter(Arc::clone(&queue));
        writer.write_all(b"one\n").unwrap();
        queue.close(Instant::now() + Duration::from_millis(1));
        let taking = Arc::clone(&queue);
        let thread = thread::spawn(move || {
            let lines = taking.take(Vec::new()).unwrap();
            assert_eq!(taking.take(Vec::new()), None);
            lines
        });
        queue.close(Instant::now() + Duration::from_secs(60));
        assert_eq!(thread.join().unwrap(), b"one\n");
        writer.write_all(b"two\n").unwrap();
        assert_eq!(queue.lost(), 1);
    }
}
