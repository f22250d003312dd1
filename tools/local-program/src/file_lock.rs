//! A lock between processes: a locked file.

use std::fs::File;
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Interval between two attempts to take a held lock.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Locks the file at `path`, and creates it if it is missing. Returns `None` if another process or file handle holds
/// the lock for longer than `patience`. The lock is released when the returned file is dropped, or the process ends.
/// `waiting` is called once, before the first pause.
///
/// # Errors
/// The file cannot be opened or locked.
pub fn try_lock_for(
    path: &Path,
    patience: Duration,
    waiting: impl FnOnce(),
) -> io::Result<Option<File>> {
    let file = File::options().create(true).append(true).open(path)?;
    let give_up_at = Instant::now() + patience;
    let mut waiting = Some(waiting);
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(file)),
            Err(Errno::WOULDBLOCK) if Instant::now() >= give_up_at => return Ok(None),
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(waiting) = waiting.take() {
            waiting();
        }
        sleep(LOCK_PAUSE);
    }
}
