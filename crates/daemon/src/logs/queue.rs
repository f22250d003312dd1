//! A bounded queue of log lines.
//!
//! Callers never wait for a write, since a reader of standard error may have stopped, and a disk may be
//! full or unresponsive. Lines that do not fit are dropped and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tidegate_core::visible_text::escape;
use tracing_subscriber::fmt::MakeWriter;

/// Largest size of the queue, in bytes. The write in progress may hold as many again.
pub(super) const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Largest buffer that is reused, in bytes; a larger buffer is freed.
const KEPT_BYTES_MAX: usize = 64 * 1024;

static LINES_LOST: AtomicU64 = AtomicU64::new(0);

/// Number of lines that this process has lost since its start.
pub(crate) fn lines_lost() -> u64 {
    LINES_LOST.load(Ordering::Relaxed)
}

/// The writing end of a queue. It never blocks and never fails.
#[derive(Clone)]
pub(super) struct LineWriter(pub(super) Arc<LineQueue>);

impl LineWriter {
    /// Writes a text as one line.
    pub(super) fn write_line(&self, text: &str) {
        self.0.push(format!("{}\n", escape(text)).as_bytes());
    }
}

impl Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
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
pub(super) struct LineQueue {
    state: Mutex<LineQueueState>,
    /// Wakes the writer thread: lines were queued, or the queue was closed.
    changed: Condvar,
    /// Wakes callers of [`LineQueue::close`]: all lines are written.
    written: Condvar,
    lost: AtomicU64,
}

#[derive(Default)]
struct LineQueueState {
    waiting: Vec<u8>,
    /// Whether the writer thread is waiting for lines.
    is_idle: bool,
    is_closed: bool,
}

impl LineQueue {
    fn push(&self, line: &[u8]) {
        let mut state = self.state.lock();
        if state.is_closed || state.waiting.len() + line.len() > WAITING_BYTES_MAX {
            drop(state);
            return self.lose(1);
        }
        state.waiting.extend_from_slice(line);
        // A wake-up is a system call, so only if the thread is asleep.
        if std::mem::take(&mut state.is_idle) {
            self.changed.notify_one();
        }
    }

    /// Waits for lines and takes all of them. Returns `None` once the queue is closed and empty. Reuses
    /// `spent`, the buffer of the previous lines.
    pub(super) fn take(&self, mut spent: Vec<u8>) -> Option<Vec<u8>> {
        spent.clear();
        if spent.capacity() > KEPT_BYTES_MAX {
            spent = Vec::new();
        }
        let mut state = self.state.lock();
        while state.waiting.is_empty() {
            state.is_idle = true;
            self.written.notify_all();
            if state.is_closed {
                return None;
            }
            self.changed.wait(&mut state);
        }
        state.is_idle = false;
        Some(std::mem::replace(&mut state.waiting, spent))
    }

    /// Rejects further lines, and waits until the queued ones are written or `deadline` has passed.
    pub(super) fn close(&self, deadline: Instant) {
        let mut state = self.state.lock();
        state.is_closed = true;
        self.changed.notify_one();
        let is_unwritten =
            |state: &mut LineQueueState| !(state.waiting.is_empty() && state.is_idle);
        self.written
            .wait_while_until(&mut state, is_unwritten, deadline);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().waiting.is_empty()
    }

    pub(super) fn lose(&self, lines: u64) {
        self.lost.fetch_add(lines, Ordering::Relaxed);
        LINES_LOST.fetch_add(lines, Ordering::Relaxed);
    }

    /// Number of lines of this queue that did not fit or could not be written.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// Without a writer thread.
    #[test]
    fn a_full_queue_drops_lines_counts_them_and_does_not_block() {
        let queue = Arc::new(LineQueue::default());
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
    fn close_waits_for_the_writer_up_to_the_deadline() {
        let queue = Arc::new(LineQueue::default());
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
