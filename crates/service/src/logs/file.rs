//! A log file that can be moved away while it is written.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};

use super::LogError;

/// Lines that wait for a slow disk; further ones are dropped.
const LINES_WAITING_MAX: usize = 16 * 1024;

/// A log file, and the thread that writes it.
pub(super) struct LogFile {
    path: PathBuf,
    file: Arc<Mutex<File>>,
    /// Writes what is left when it is dropped, for at most about a second.
    _writing: WorkerGuard,
}

impl LogFile {
    /// Opens a file for appending, and a writer for it that never blocks.
    pub(super) fn open(path: PathBuf) -> Result<(Self, NonBlocking), LogError> {
        let file = Arc::new(Mutex::new(append(&path)?));
        let appender = Appender {
            path: path.clone(),
            file: Arc::clone(&file),
            is_failing: false,
        };
        let (writer, writing) = NonBlockingBuilder::default()
            .lossy(true)
            .buffered_lines_limit(LINES_WAITING_MAX)
            .thread_name("log")
            .finish(appender);
        let file = Self {
            path,
            file,
            _writing: writing,
        };
        Ok((file, writer))
    }

    /// Opens the file of this name anew. If that fails the open one stays in use.
    pub(super) fn reopen(&self) -> Result<(), LogError> {
        let fresh = append(&self.path)?;
        *lock(&self.file) = fresh;
        Ok(())
    }
}

fn append(path: &PathBuf) -> Result<File, LogError> {
    let opened = File::options().create(true).append(true).open(path);
    opened.map_err(|source| LogError::File {
        path: path.clone(),
        source,
    })
}

/// A file is whole whoever held the lock.
fn lock(file: &Mutex<File>) -> MutexGuard<'_, File> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes lines to the file that is open at that moment. It never fails: a line that cannot be written
/// is lost, and standard error is told of the first.
struct Appender {
    path: PathBuf,
    file: Arc<Mutex<File>>,
    is_failing: bool,
}

impl Write for Appender {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let written = lock(&self.file).write_all(line);
        match written {
            Ok(()) => self.is_failing = false,
            Err(_) if self.is_failing => {}
            Err(error) => {
                self.is_failing = true;
                let path = self.path.display();
                // There is nobody left to tell if this fails too.
                let _ = writeln!(io::stderr(), "cannot write {path}: {error}; lines are lost");
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_was_moved_away_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("x.log"), folder.path().join("x.log.1"));
        fs::write(&path, "zero\n").unwrap();
        let (file, mut writer) = LogFile::open(path.clone()).unwrap();
        writer.write_all(b"one\n").unwrap();
        while fs::read_to_string(&path).unwrap() != "zero\none\n" {
            std::thread::yield_now();
        }
        fs::rename(&path, &moved).unwrap();
        file.reopen().unwrap();
        writer.write_all(b"two\n").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&moved).unwrap(), "zero\none\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
    }

    #[test]
    fn a_file_that_cannot_be_opened_anew_leaves_the_old_one_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        let moved = folder.path().join("moved");
        fs::create_dir(&inner).unwrap();
        let (file, mut writer) = LogFile::open(inner.join("x.log")).unwrap();
        fs::rename(&inner, &moved).unwrap();
        assert!(file.reopen().is_err());
        writer.write_all(b"one\n").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(moved.join("x.log")).unwrap(), "one\n");
    }

    /// `/dev/full` is a disk without room.
    #[test]
    fn a_full_disk_loses_lines_and_nothing_else() {
        let full = PathBuf::from("/dev/full");
        if !full.exists() {
            return;
        }
        let (file, mut writer) = LogFile::open(full).unwrap();
        for _ in 0..1000 {
            writer.write_all(b"line\n").unwrap();
        }
        drop(file);
    }
}
