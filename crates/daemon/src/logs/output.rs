//! Outputs of the log: a file that can be rotated, or standard error.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use super::LogError;
use super::queue::{LineQueue, LineWriter};

/// Name of standard error in messages.
const STANDARD_ERROR: &str = "standard error";
/// Mode of new files, before the umask. Not world-readable, since lines contain queue names.
const FILE_MODE: u32 = 0o640;
/// Target of reports of lost lines, which pass at every log level.
pub(super) const REPORT: &str = "log_lines_lost";
/// Pause when standard error is a full non-blocking pipe.
const FULL_PIPE_PAUSE: Duration = Duration::from_millis(10);

/// A file or standard error, with its queue and its writer thread.
pub(super) struct LogOutput {
    path: PathBuf,
    /// The current file. It can be replaced while a write blocks.
    file: Arc<ArcSwap<LogFile>>,
    queue: Arc<LineQueue>,
}

impl LogOutput {
    /// Opens a file for appending. The first failure of a series of failed writes is reported to
    /// `errors`.
    pub(super) fn file(path: PathBuf, errors: LineWriter) -> Result<Self, LogError> {
        let file = LogFile::append(&path).map_err(failed(&path))?;
        Self::start(path, file, Some(errors))
    }

    /// Does not use the lock of [`io::stderr`]: a write that blocks forever would hold it.
    pub(super) fn standard_error() -> Result<Self, LogError> {
        let path = PathBuf::from(STANDARD_ERROR);
        let copy = io::stderr().as_fd().try_clone_to_owned();
        let file = File::from(copy.map_err(failed(&path))?);
        Self::start(path, LogFile::whole(file), None)
    }

    fn start(path: PathBuf, file: LogFile, errors: Option<LineWriter>) -> Result<Self, LogError> {
        let file = Arc::new(ArcSwap::from_pointee(file));
        let queue = Arc::new(LineQueue::default());
        let writing = WriterThread {
            name: path.display().to_string(),
            file: Arc::clone(&file),
            queue: Arc::clone(&queue),
            errors,
        };
        let thread = thread::Builder::new().name("log".to_owned());
        let started = thread.spawn(move || writing.run());
        started.map_err(failed(&path))?;
        Ok(Self { path, file, queue })
    }

    pub(super) fn writer(&self) -> LineWriter {
        LineWriter(Arc::clone(&self.queue))
    }

    /// Reopens the file at its path. If that fails, the open file stays in use.
    pub(super) fn reopen(&self) -> Result<(), LogError> {
        let fresh = LogFile::append(&self.path).map_err(failed(&self.path))?;
        self.file.store(Arc::new(fresh));
        Ok(())
    }

    /// Rejects further lines, and waits until the queued ones are written or `deadline` has passed.
    pub(super) fn close(&self, deadline: Instant) {
        self.queue.close(deadline);
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> LogError {
    move |source| LogError::File {
        path: path.to_owned(),
        source,
    }
}

/// A file, and whether it ends with an incomplete line.
struct LogFile {
    file: File,
    is_torn: AtomicBool,
}

impl LogFile {
    /// Opens a file for appending. An earlier process may have left an incomplete line at its end.
    fn append(path: &Path) -> io::Result<Self> {
        let options = &mut File::options();
        let options = options.create(true).append(true).mode(FILE_MODE);
        let file = options.open(path)?;
        let is_torn = ends_within_line(&file, path).unwrap_or(false);
        let is_torn = is_torn.into();
        Ok(Self { file, is_torn })
    }

    /// A file that does not end with an incomplete line.
    fn whole(file: File) -> Self {
        let is_torn = false.into();
        Self { file, is_torn }
    }

    /// Writes lines, or returns the rest that was not written. Completes an incomplete last line
    /// first.
    fn write_lines<'a>(&self, lines: &'a [u8]) -> Result<(), (io::Error, &'a [u8])> {
        if self.is_torn.load(Ordering::Relaxed) {
            write_all(&self.file, b"\n").map_err(|(error, _)| (error, lines))?;
            self.is_torn.store(false, Ordering::Relaxed);
        }
        let written = write_all(&self.file, lines);
        if let Err((_, rest)) = &written {
            let done = &lines[..lines.len() - rest.len()];
            let is_torn = done.last().is_some_and(|last| *last != b'\n');
            self.is_torn.store(is_torn, Ordering::Relaxed);
        }
        written
    }
}

fn ends_within_line(file: &File, path: &Path) -> io::Result<bool> {
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    File::open(path)?.read_exact_at(&mut last, metadata.len() - 1)?;
    Ok(last != *b"\n")
}

/// The writer thread of an output.
struct WriterThread {
    name: String,
    file: Arc<ArcSwap<LogFile>>,
    queue: Arc<LineQueue>,
    errors: Option<LineWriter>,
}

impl WriterThread {
    fn run(self) {
        let mut lines = Vec::new();
        let mut is_failing = false;
        let mut reported = 0;
        while let Some(taken) = self.queue.take(lines) {
            lines = taken;
            match self.file.load_full().write_lines(&lines) {
                Ok(()) => {
                    is_failing = false;
                    self.report_lost(&mut reported);
                }
                Err((error, rest)) => {
                    let lost = rest.iter().filter(|byte| **byte == b'\n').count();
                    self.queue.lose(lost as u64);
                    if !std::mem::replace(&mut is_failing, true) {
                        self.report_failure(&error);
                    }
                }
            }
        }
    }

    /// Reports lost lines in the log itself, once writing works again.
    fn report_lost(&self, reported: &mut u64) {
        let lost = self.queue.lost();
        if lost == *reported || !self.queue.is_empty() {
            return;
        }
        tracing::warn!(
            target: REPORT,
            lines = lost - *reported,
            output = self.name,
            "log lines were lost: the output was blocked or failed"
        );
        *reported = lost;
    }

    fn report_failure(&self, error: &io::Error) {
        if let Some(errors) = &self.errors {
            errors.write_line(&format!(
                "cannot write {}: {error}; lines are lost",
                self.name
            ));
        }
    }
}

/// Writes everything, or returns the rest that was not written.
fn write_all<'a>(mut file: &File, mut rest: &'a [u8]) -> Result<(), (io::Error, &'a [u8])> {
    while !rest.is_empty() {
        match file.write(rest) {
            Ok(0) => return Err((io::ErrorKind::WriteZero.into(), rest)),
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                #[expect(clippy::disallowed_methods, reason = "a separate thread")]
                thread::sleep(FULL_PIPE_PAUSE);
            }
            Err(error) => return Err((error, rest)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    fn open(path: PathBuf) -> (LogOutput, LineWriter) {
        let errors = LineWriter(Arc::new(LineQueue::default()));
        let output = LogOutput::file(path, errors).unwrap();
        let writer = output.writer();
        (output, writer)
    }

    fn close(output: &LogOutput) {
        output.close(Instant::now() + LIMIT);
    }

    #[test]
    fn reopening_a_renamed_file_creates_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("x.log"), folder.path().join("x.log.1"));
        fs::write(&path, "zero\n").unwrap();
        let (output, mut writer) = open(path.clone());
        writer.write_all(b"one\n").unwrap();
        while fs::read_to_string(&path).unwrap() != "zero\none\n" {
            thread::yield_now();
        }
        fs::rename(&path, &moved).unwrap();
        output.reopen().unwrap();
        writer.write_all(b"two\n").unwrap();
        close(&output);
        assert_eq!(fs::read_to_string(&moved).unwrap(), "zero\none\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
    }

    #[test]
    fn the_old_file_stays_in_use_if_reopening_fails() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        let moved = folder.path().join("moved");
        fs::create_dir(&inner).unwrap();
        let (output, mut writer) = open(inner.join("x.log"));
        fs::rename(&inner, &moved).unwrap();
        assert!(output.reopen().is_err());
        writer.write_all(b"one\n").unwrap();
        close(&output);
        assert_eq!(fs::read_to_string(moved.join("x.log")).unwrap(), "one\n");
    }

    #[test]
    fn a_line_that_an_earlier_process_wrote_in_part_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.log");
        fs::write(&path, "zero\nhal").unwrap();
        let (output, mut writer) = open(path.clone());
        writer.write_all(b"one\n").unwrap();
        writer.write_all(b"two\n").unwrap();
        close(&output);
        let written = fs::read_to_string(&path).unwrap();
        assert_eq!(written, "zero\nhal\none\ntwo\n");
    }

    /// `/dev/full` behaves like a full disk.
    #[test]
    fn a_full_disk_only_loses_lines_and_counts_them() {
        let full = PathBuf::from("/dev/full");
        if !full.exists() {
            return;
        }
        let (output, mut writer) = open(full);
        for _ in 0..1000 {
            writer.write_all(b"line\n").unwrap();
        }
        close(&output);
        assert_eq!(output.queue.lost(), 1000);
    }

    /// The pipe is full, and its reader does not read.
    #[test]
    fn a_blocked_write_delays_neither_close_nor_reopen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.log");
        let (_reader, pipe) = io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(pipe));
        let output = LogOutput::start(path.clone(), LogFile::whole(pipe), None).unwrap();
        let mut writer = output.writer();
        writer.write_all(&[b'x'; 1024 * 1024]).unwrap();
        while !output.queue.is_empty() {
            thread::yield_now();
        }
        writer.write_all(b"behind\n").unwrap();
        output.reopen().unwrap();
        let begin = Instant::now();
        output.close(begin + Duration::from_millis(50));
        assert!(begin.elapsed() < LIMIT);
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
    }
}
