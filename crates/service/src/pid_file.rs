//! A file with the id of the process in it, for those who send signals.

mod owner;

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// A pid file is no longer than this. Ids have up to 10 digits.
const CONTENT_BYTES_MAX: u64 = 32;

/// Why there is no pid file.
#[derive(Debug, thiserror::Error)]
pub enum PidFileError {
    /// It belongs to a process that runs.
    #[error("pid_file: {}: {holder} holds it; stop it first, or give this one another pid_file", path.display())]
    Held {
        /// The file.
        path: PathBuf,
        /// Who, as far as the file tells.
        holder: String,
    },
    /// It names a process that runs, but does not lock it: that of another program.
    #[error(
        "pid_file: {} belongs to process {id}; stop that first, or give this one another pid_file; remove the file if \
         it is not about that process",
        path.display()
    )]
    Owned {
        /// The file.
        path: PathBuf,
        /// The process.
        id: u32,
    },
    /// There is something else than a pid file.
    #[error("pid_file: {} is no pid file; it stays as it is: give another path", path.display())]
    Other {
        /// The file.
        path: PathBuf,
    },
    /// The system refused something.
    #[error("pid_file: cannot write {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

/// The pid file of this process. It is locked while it lasts, and removed when it is dropped. A file that
/// a killed process left behind is used again, and so is an empty one. Everything else is left as it is: symbolic
/// links, and the file of another process that runs, whether that locks it or not.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
    file: File,
}

impl PidFile {
    /// Writes the id of this process to the file at `path`.
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
                    return Err(PidFileError::Other { path });
                }
                opened => opened.map_err(failed)?,
            };
            if !file.metadata().map_err(failed)?.is_file() {
                return Err(PidFileError::Other { path });
            }
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    let holder = holder(&mut file);
                    return Err(PidFileError::Held { path, holder });
                }
                Err(error) => return Err(failed(error.into())),
            }
            // The process before may have removed it between our two steps: then nobody would find it.
            if is_at(&file, &path).map_err(failed)? {
                if !is_pid_file(&mut file).map_err(failed)? {
                    return Err(PidFileError::Other { path });
                }
                let written = file.metadata().and_then(|file| file.modified());
                let written = written.map_err(failed)?;
                let named = named(&mut file).filter(|id| *id != std::process::id());
                if let Some(id) = named.filter(|id| owner::is_owner(*id, written)) {
                    return Err(PidFileError::Owned { path, id });
                }
                fill(&mut file).map_err(failed)?;
                return Ok(Self { path, file });
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Ours, unless somebody has put another one there.
        if is_at(&self.file, &self.path).unwrap_or(false) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    // A FIFO must not block, nor a terminal become ours.
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

/// Whether there is nothing in it but a number, or nothing at all.
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

fn holder(file: &mut File) -> String {
    named(file).map_or("another process".to_owned(), |id| format!("process {id}"))
}

/// The process that a pid file names.
fn named(file: &mut File) -> Option<u32> {
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
    fn a_file_is_taken_once_written_anew_and_removed() {
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
    fn a_file_that_somebody_else_has_put_there_stays() {
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

    /// As it is where a container is started again.
    #[test]
    fn a_file_that_names_this_process_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pid");
        fs::write(&path, format!("{}\n", std::process::id())).unwrap();
        drop(PidFile::write(&path).unwrap());
    }

    #[test]
    fn what_is_no_pid_file_stays_as_it_is() {
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
    fn a_folder_that_is_not_there_is_named() {
        let said = PidFile::write(Path::new("/nowhere/x.pid")).unwrap_err();
        assert!(
            said.to_string()
                .starts_with("pid_file: cannot write /nowhere/x.pid")
        );
    }
}
