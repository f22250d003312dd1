//! Ensures that one deployment at a time uses a folder. The processes of a killed one end within some seconds.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

/// Locks the state folder. The lock is released when the returned file is dropped, or the process ends.
///
/// # Errors
/// Another process holds the lock; the message has its id.
pub fn lock(folder: &Path) -> Result<File, String> {
    let path = folder.join("lock");
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(folder).map_err(failed)?;
    let mut file = File::options()
        .create(true)
        .read(true)
        .append(true)
        .open(&path)
        .map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {
            file.set_len(0).map_err(failed)?;
            std::io::Write::write_all(&mut file, std::process::id().to_string().as_bytes())
                .map_err(failed)?;
            Ok(file)
        }
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            Err(format!(
                "another command is running (process {pid}): {} is in use; stop it first",
                folder.display()
            ))
        }
        Err(error) => Err(failed(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIES: usize = 500;
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

    #[test]
    fn a_second_lock_fails_and_names_the_owner() {
        let folder = tempfile::tempdir().unwrap();
        let held = lock(folder.path()).unwrap();
        let message = lock(folder.path()).unwrap_err();
        assert!(
            message.contains(&format!("process {}", std::process::id())),
            "{message}"
        );
        drop(held);
        // A child that another test is starting holds the lock too, between fork and exec.
        let is_free = (0..TRIES).any(|_| {
            let is_free = lock(folder.path()).is_ok();
            if !is_free {
                std::thread::sleep(PAUSE);
            }
            is_free
        });
        assert!(is_free);
    }
}
