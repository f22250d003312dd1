//! The pid file, for programs that send signals to the process.

mod owner;

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// Largest pid file, in bytes. Process ids have up to 10 digits.
const CONTENT_BYTES_MAX: u64 = 32;

/// The pid file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum PidFileError {
    /// A running process has locked the file.
    #[error("pid_file: {}: {holder} holds it; stop that process, or set pid_file to another path", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
        /// The process that holds it, if the file names one.
        holder: String,
    },
    /// The file names a running process that has not locked it: the pid file of another program.
    #[error(
        "pid_file: {} belongs to process {id}; stop that process, or set pid_file to another path; remove the file if \
         it is stale",
        path.display()
    )]
    InUse {
        /// The file.
        path: PathBuf,
        /// The id of that process.
        id: u32,
    },
    /// The path leads to something other than a pid file.
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

/// The pid file of this process. The file stays locked, and is removed when this is dropped. An empty file, or
/// a file that a killed process left behind, is overwritten. Everything else is left unchanged: symbolic links, and
/// the file of another running process, whether that process locks it or not.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
    file: File,
}

impl PidFile {
    /// Locks the file at `path` and writes the id of this process to it.
    ///
    /// # Errors
    /// See [`PidFileError`].
    pub fn write(path: &Path) -> Result<Self, PidFileError> {
        let path = path.to_owned();
        let failed = |source| PidFileError::Io {
            path: path.clone(),
            source,
        };
        loop {
            let mut file = match open(&path) {
                Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                    return Err(PidFileError::NotAPidFile { path });
                }
                opened => opened.map_err(failed)?,
            };
            if !file.metadata().map_err(failed)?.is_file() {
                return Err(PidFileError::NotAPidFile { path });
            }
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    let holder = read_process_id(&mut file).map(|id| format!("process {id}"));
                    let holder = holder.unwrap_or("another process".to_owned());
                    return Err(PidFileError::Locked { path, holder });
                }
                Err(error) => return Err(failed(error.into())),
            }
            // The previous process may have removed the file between open and lock. Then try again, since no
            // // program would find this one.
            if is_at(&file, &path).map_err(failed)? {
                if !is_pid_file(&mut file).map_err(failed)? {
                    return Err(PidFileError::NotAPidFile { path });
                }
                let written = file.metadata().and_then(|file| file.modified());
                let written = written.map_err(failed)?;
                let named = read_process_id(&mut file).filter(|id| *id != std::process::id());
                if let Some(id) = named.filter(|id| owner::is_owner(*id, written)) {
                    return Err(PidFileError::InUse { path, id });
                }
                fill(&mut file).map_err(failed)?;
                return Ok(Self { path, file });
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Not if another process has put its own file there.
        if is_at(&self.file, &self.path).unwrap_or(false) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    // A FIFO must not block the open, and a terminal must not become our controlling terminal.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o644)
        .custom_flags(flags.bits() as i32)
        .open(path)
}

/// Whether the file is empty or has only a number in it.
fn is_pid_file(file: &mut File) -> io::Result<bool> {
    let mut text = Vec::new();
    file.rewind()?;
    file.take(CONTENT_BYTES_MAX + 1).read_to_end(&mut text)?;
    let is_short = text.len() as u64 <= CONTENT_BYTES_MAX;
    Ok(is_short && text.trim_ascii().iter().all(u8::is_ascii_digit))
}

fn fill(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the process id in a pid file.
fn read_process_id(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    let read = file.take(CONTENT_BYTES_MAX).read_to_string(&mut text);
    read.ok().and_then(|_| text.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_file_is_locked_overwritten_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pid");
        fs::write(&path, "99999999999\n").unwrap();
        let ours = PidFile::write(&path).unwrap();
        let id = std::process::id().to_string();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{id}\n"));
        let said = PidFile::write(&path).unwrap_err().to_string();
        assert!(said.contains(&format!("process {id} holds it")), "{said}");
        drop(ours);
        assert!(!path.exists());
        drop(PidFile::write(&path).unwrap());
    }

    #[test]
    fn the_file_of_another_process_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pid");
        let ours = PidFile::write(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "1\n").unwrap();
        drop(ours);
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
    }

    #[test]
    fn the_file_of_another_process_that_runs_stays_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pid");
        let mut other = Command::new("sleep").arg("600").spawn().unwrap();
        let text = format!("{}\n", other.id());
        fs::write(&path, &text).unwrap();
        let refused = PidFile::write(&path);
        let left = fs::read_to_string(&path).unwrap();
        other.kill().unwrap();
        other.wait().unwrap();
        let said = refused.unwrap_err().to_string();
        assert!(
            said.contains(&format!("x.pid belongs to process {}", other.id())),
            "{said}"
        );
        assert_eq!(left, text);
        drop(PidFile::write(&path).unwrap());
        assert!(!path.exists());
    }

    /// As in a container that is restarted.
    #[test]
    fn a_file_that_names_this_process_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pid");
        fs::write(&path, format!("{}\n", std::process::id())).unwrap();
        drop(PidFile::write(&path).unwrap());
    }

    #[test]
    fn a_file_that_is_not_a_pid_file_is_left_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pid");
        let long = "1".repeat(CONTENT_BYTES_MAX as usize + 1);
        for text in ["1 of many\n", "[log]\n", "1\n2\n", "-1\n", long.as_str()] {
            fs::write(&path, text).unwrap();
            let said = PidFile::write(&path).unwrap_err().to_string();
            assert!(said.contains("x.pid is no pid file"), "{said}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "").unwrap();
        for target in [&target, &folder.path().join("missing")] {
            std::os::unix::fs::symlink(target, &link).unwrap();
            let said = PidFile::write(&link).unwrap_err().to_string();
            assert!(said.contains("link is no pid file"), "{said}");
            assert!(link.is_symlink());
            fs::remove_file(&link).unwrap();
        }
        assert_eq!(fs::read_to_string(&target).unwrap(), "");
        assert!(!folder.path().join("missing").exists());
        let said = PidFile::write(folder.path()).unwrap_err().to_string();
        assert!(said.starts_with("pid_file: "), "{said}");
    }

    #[test]
    fn an_empty_file_becomes_a_pid_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pid");
        fs::write(&path, "").unwrap();
        let _ours = PidFile::write(&path).unwrap();
        assert!(!fs::read_to_string(&path).unwrap().is_empty());
    }

    #[test]
    fn a_missing_directory_is_named() {
        let said = PidFile::write(Path::new("/nowhere/x.pid")).unwrap_err();
        assert!(
            said.to_string()
                .starts_with("pid_file: cannot write /nowhere/x.pid")
        );
    }
}
