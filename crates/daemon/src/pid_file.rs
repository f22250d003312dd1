//! The pid file, for programs that send signals to the process.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// The most bytes of a pid file. A process id has up to 10 digits.
const CONTENT_BYTES_MAX: u64 = 32;

/// The pid file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum PidFileError {
    /// The file has something else than a number.
    #[error("pid_file: {} is no pid file and was left unchanged; set pid_file to another path", path.display())]
    NotAPidFile {
        /// The file.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("pid_file: cannot write {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// The pid file of this process, which is removed when this is dropped. An existing file is overwritten if it is empty
/// or has the id of a process; a symbolic link is not followed. Whether that process runs is not checked: the service
/// manager starts one process.
#[derive(Debug)]
pub struct PidFile(PathBuf);

impl PidFile {
    /// Writes the id of this process to the file at `path`.
    ///
    /// # Errors
    /// See [`PidFileError`].
    pub fn write(path: &Path) -> Result<Self, PidFileError> {
        let path = path.to_owned();
        match try_write(&path) {
            Ok(true) => Ok(Self(path)),
            Ok(false) => Err(PidFileError::NotAPidFile { path }),
            Err(source) => Err(PidFileError::Io { path, source }),
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Not if another process has written its own id.
        if fs::read_to_string(&self.0).is_ok_and(|text| text == content()) {
            let _ = fs::remove_file(&self.0);
        }
    }
}

fn content() -> String {
    format!("{}\n", std::process::id())
}

/// Returns whether the file was a pid file, or empty.
fn try_write(path: &Path) -> io::Result<bool> {
    // A FIFO must not block the open, and a terminal must not become the controlling terminal.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o644)
        .custom_flags(flags.bits() as i32)
        .open(path)?;
    let mut text = Vec::new();
    (&mut file)
        .take(CONTENT_BYTES_MAX + 1)
        .read_to_end(&mut text)?;
    let is_short = text.len() as u64 <= CONTENT_BYTES_MAX;
    if !is_short || !text.trim_ascii().iter().all(u8::is_ascii_digit) {
        return Ok(false);
    }
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(content().as_bytes())?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_overwritten_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pid");
        for before in ["", "99999999999\n"] {
            fs::write(&path, before).unwrap();
            let ours = PidFile::write(&path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content());
            drop(ours);
            assert!(!path.exists());
        }
        drop(PidFile::write(&path).unwrap());
    }

    #[test]
    fn a_file_that_another_process_has_written_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pid");
        let ours = PidFile::write(&path).unwrap();
        fs::write(&path, "1\n").unwrap();
        drop(ours);
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
    }

    #[test]
    fn a_file_that_is_not_a_pid_file_is_left_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pid");
        let long = "1".repeat(CONTENT_BYTES_MAX as usize + 1);
        for text in ["1 of many\n", "[log]\n", "1\n2\n", "-1\n", long.as_str()] {
            fs::write(&path, text).unwrap();
            let message = PidFile::write(&path).unwrap_err().to_string();
            assert!(message.contains("x.pid is no pid file"), "{message}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        for unusable in [&link, folder.path(), Path::new("/nowhere/x.pid")] {
            let message = PidFile::write(unusable).unwrap_err().to_string();
            let expected = format!("pid_file: cannot write {}", unusable.display());
            assert!(message.starts_with(&expected), "{message}");
        }
        assert!(!target.exists());
    }
}
