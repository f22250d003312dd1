//! A file with the id of the process in it, for those who send signals.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

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
    /// The system refused something.
    #[error("pid_file: cannot write {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

/// The pid file of this process. It is locked while it lasts, and removed when it is dropped; a file that
/// a killed process left behind is taken over.
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
            let mut file = File::options()
                .create(true)
                .truncate(false)
                .read(true)
                .write(true)
                .open(&path)
                .map_err(failed)?;
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

fn fill(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
    match (read, text.trim().parse::<u32>()) {
        (Ok(_), Ok(id)) => format!("process {id}"),
        _ => "another process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_taken_once_written_anew_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pid");
        fs::write(&path, "99999999999 and a longer rest of an earlier run\n").unwrap();
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
    fn a_folder_that_is_not_there_is_named() {
        let said = PidFile::write(Path::new("/nowhere/x.pid")).unwrap_err();
        assert!(
            said.to_string()
                .starts_with("pid_file: cannot write /nowhere/x.pid")
        );
    }
}
