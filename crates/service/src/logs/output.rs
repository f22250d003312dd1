//! Where lines are written: a file that can be moved away, or standard error.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::LogError;
use super::queue::{LineWriter, Queue};

/// What standard error is called in messages.
const STANDARD_ERROR: &str = "standard error";
/// Of files that are created; the umask may take from it. Names of queues are not for everybody.
const FILE_MODE: u32 = 0o640;
/// The target of reports of lost lines, which are written at every level.
pub(super) const REPORT: &str = "log_lines_lost";
/// Standard error may be a pipe that does not block, and that is full.
const FULL_PIPE_PAUSE: Duration = Duration::from_millis(10);

/// A file or standard error, with a queue of lines and the thread that writes them.
pub(super) struct Output {
    path: PathBuf,
    file: Arc<OpenFile>,
    queue: Arc<Queue>,
}

impl Output {
    /// Opens a file for appending. The first write that fails is reported to `errors`.
    pub(super) fn file(path: PathBuf, errors: LineWriter) -> Result<Self, LogError> {
        let file = LogFile::append(&path).map_err(failed(&path))?;
        Self::start(path, file, Some(errors))
    }

    /// The lock of [`io::stderr`] is not used: a write that does not end would keep it.
    pub(super) fn standard_error() -> Result<Self, LogError> {
        let path = PathBuf::from(STANDARD_ERROR);
        let copy = io::stderr().as_fd().try_clone_to_owned();
        let file = File::from(copy.map_err(failed(&path))?);
        Self::start(path, LogFile::from(file), None)
    }

    fn start(path: PathBuf, file: LogFile, errors: Option<LineWriter>) -> Result<Self, LogError> {
        let file = Arc::new(OpenFile(Mutex::new(Arc::new(file))));
        let queue = Arc::new(Queue::default());
        let writing = Writing {
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

    /// Opens the file of this name again. If that fails the open one stays in use.
    pub(super) fn reopen(&self) -> Result<(), LogError> {
        let fresh = LogFile::append(&self.path).map_err(failed(&self.path))?;
        self.file.replace(fresh);
        Ok(())
    }

    /// Accepts no more lines, and waits until those before are written, but not beyond `deadline`.
    pub(super) fn close(&self, deadline: Instant) {
        self.queue.close(deadline);
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> LogError {
    let path = path.to_owned();
    move |source| LogError::File {
        path: path.clone(),
        source,
    }
}

/// A file, and whether it ends within a line.
struct LogFile {
    file: File,
    is_torn: AtomicBool,
}

impl LogFile {
    /// Opens a file for appending. An earlier process may have written its last line in part.
    fn append(path: &Path) -> io::Result<Self> {
        let options = &mut File::options();
        let options = options.create(true).append(true).mode(FILE_MODE);
        let file = options.open(path)?;
        let is_torn = ends_within_line(&file, path).unwrap_or(false);
        Ok(Self {
            file,
            is_torn: AtomicBool::new(is_torn),
        })
    }

    /// Writes lines, or returns what was not written. The first of them begins on a new line.
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

impl From<File> for LogFile {
    fn from(file: File) -> Self {
        Self {
            file,
            is_torn: AtomicBool::new(false),
        }
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

/// The file that is open now. It can be replaced during a write that does not end.
struct OpenFile(Mutex<Arc<LogFile>>);

impl OpenFile {
    fn get(&self) -> Arc<LogFile> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn replace(&self, file: LogFile) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(file);
    }
}

/// The thread of an output.
struct Writing {
    name: String,
    file: Arc<OpenFile>,
    queue: Arc<Queue>,
    errors: Option<LineWriter>,
}

impl Writing {
    fn run(mut self) {
        let mut lines = Vec::new();
        let mut is_failing = false;
        let mut reported = 0;
        while let Some(taken) = self.queue.take(lines) {
            lines = taken;
            match self.file.get().write_lines(&lines) {
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

    /// Says in the log itself that lines are missing, once it is written again.
    fn report_lost(&self, reported: &mut u64) {
        let lost = self.queue.lost();
        if lost == *reported || !self.queue.is_empty() {
            return;
        }
        tracing::warn!(
            target: REPORT,
            lines = lost - *reported,
            output = self.name,
            "log lines were lost: they were not written in time"
        );
        *reported = lost;
    }

    fn report_failure(&mut self, error: &io::Error) {
        if let Some(errors) = &mut self.errors {
            // It never fails.
            let _ = writeln!(
                errors,
                "cannot write {}: {error}; lines are lost",
                self.name
            );
        }
    }
}

/// Writes, or returns what was not written.
fn write_all<'a>(mut file: &File, mut rest: &'a [u8]) -> Result<(), (io::Error, &'a [u8])> {
    while !rest.is_empty() {
        match file.write(rest) {
            Ok(0) => return Err((io::ErrorKind::WriteZero.into(), rest)),
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
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

    fn open(path: PathBuf) -> (Output, LineWriter) {
        let errors = LineWriter(Arc::new(Queue::default()));
        let output = Output::file(path, errors).unwrap();
        let writer = output.writer();
        (output, writer)
    }

    fn close(output: &Output) {
        output.close(Instant::now() + LIMIT);
    }

    #[test]
    fn a_file_that_was_moved_away_is_left_and_a_new_one_opened() {
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
    fn a_file_that_cannot_be_opened_again_leaves_the_old_one_in_use() {
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

    /// `/dev/full` is a disk without room.
    #[test]
    fn a_full_disk_loses_lines_counts_them_and_nothing_else() {
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

    /// The buffer of the pipe is full, and its reader does not read.
    #[test]
    fn a_write_that_does_not_end_holds_up_neither_the_end_nor_a_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.log");
        let (_reader, pipe) = io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(pipe));
        let output = Output::start(path.clone(), pipe.into(), None).unwrap();
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
