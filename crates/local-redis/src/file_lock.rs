//! A lock between processes: a file, locked as long as it is open.

use std::fs::File;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::Error;

/// Between two looks at a lock that somebody holds.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Locks the file at `path`, which is made if need be; `None` if somebody else has held it for as long as `patience`.
/// The lock ends with the returned file, or with the process. `waiting` is called once, before the first pause.
pub(crate) fn lock_within(
    path: &Path,
    patience: Duration,
    waiting: impl FnOnce(),
) -> Result<Option<File>, Error> {
    let doing = || format!("locking {}", path.display());
    let file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .map_err(Error::io(doing()))?;
    let give_up_at = Instant::now() + patience;
    let mut waiting = Some(waiting);
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(file)),
            Err(Errno::WOULDBLOCK) if Instant::now() >= give_up_at => return Ok(None),
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(Error::io(doing())(error.into())),
        }
        if let Some(waiting) = waiting.take() {
            waiting();
        }
        sleep(LOCK_PAUSE);
    }
}
