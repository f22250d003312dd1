//! The standard error of the process. A reader that stalls holds up one thread, and no runtime.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::visible_text::escape;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// How many parts wait for the reader. A part has up to 8 KiB.
const PARTS_MAX: usize = 128;
/// How long a program waits for the reader of its errors, until it is taken for stalled.
const STALL_TIME: Duration = Duration::from_secs(1);
/// How long the end of a command waits for the reader.
const LAST_TIME: Duration = Duration::from_secs(2);

static OUTPUT: OnceLock<ErrorOutput> = OnceLock::new();

/// The next work of the thread.
enum OutputPart {
    Bytes(Vec<u8>),
    /// All parts before it are written.
    Written(oneshot::Sender<()>),
}

/// The way to the thread that writes.
struct ErrorOutput {
    parts: mpsc::Sender<OutputPart>,
    is_stalled: AtomicBool,
    dropped_bytes: AtomicU64,
}

/// Writes these bytes when the reader takes them. Drops them if too many wait already.
pub(crate) fn write(bytes: &[u8]) {
    let output = output();
    if output
        .parts
        .try_send(OutputPart::Bytes(bytes.to_vec()))
        .is_err()
    {
        output.drop_bytes(bytes.len());
    }
}

/// Writes a line, whose control characters are escaped: texts of servers are among it.
pub(crate) fn write_line(line: &str) {
    write(format!("{}\n", escape(line)).as_bytes());
}

/// Writes these bytes, and waits a moment for a reader that is slower than the writer.
pub(crate) async fn write_waiting(bytes: &[u8]) {
    let output = output();
    let part = match output.parts.try_send(OutputPart::Bytes(bytes.to_vec())) {
        Ok(()) => {
            output.is_stalled.store(false, Ordering::Relaxed);
            return;
        }
        Err(TrySendError::Full(part) | TrySendError::Closed(part)) => part,
    };
    let is_stalled = output.is_stalled.load(Ordering::Relaxed);
    if is_stalled || timeout(STALL_TIME, output.parts.send(part)).await.is_err() {
        output.is_stalled.store(true, Ordering::Relaxed);
        output.drop_bytes(bytes.len());
    }
}

/// Waits until all is written, or the reader is taken for stalled.
pub(crate) async fn flush() {
    let Some(output) = OUTPUT.get() else {
        return;
    };
    let (written, all_written) = oneshot::channel();
    let flushing = async {
        let _ = output.parts.send(OutputPart::Written(written)).await;
        let _ = all_written.await;
    };
    let _ = timeout(LAST_TIME, flushing).await;
}

/// A writer for log lines.
#[derive(Debug)]
pub(crate) struct ErrorLines;

impl Write for ErrorLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // All bytes of a line come at once.
        write_line(String::from_utf8_lossy(bytes).trim_end_matches('\n'));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ErrorOutput {
    fn drop_bytes(&self, bytes: usize) {
        self.dropped_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

fn output() -> &'static ErrorOutput {
    OUTPUT.get_or_init(|| {
        let (parts, receiver) = mpsc::channel(PARTS_MAX);
        // It ends with the process.
        std::thread::spawn(move || write_parts(receiver));
        ErrorOutput {
            parts,
            is_stalled: AtomicBool::new(false),
            dropped_bytes: AtomicU64::new(0),
        }
    })
}

fn write_parts(mut parts: mpsc::Receiver<OutputPart>) {
    while let Some(part) = parts.blocking_recv() {
        // Nothing is left to do if the standard error is closed.
        if let OutputPart::Bytes(bytes) = &part {
            drop(io::stderr().write_all(bytes));
        }
        let dropped = &output().dropped_bytes;
        let bytes = match parts.is_empty() {
            true => dropped.swap(0, Ordering::Relaxed),
            false => 0,
        };
        if bytes > 0 {
            let text = format!(
                "\n{bytes} bytes of the standard error were dropped: its reader did not take them\n"
            );
            drop(io::stderr().write_all(text.as_bytes()));
        }
        if let OutputPart::Written(written) = part {
            let _ = written.send(());
        }
    }
}
