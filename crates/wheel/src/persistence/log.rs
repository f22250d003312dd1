//! The file of a [`File`](super::File): frames are appended to it, and it is rewritten once most of it is out of date.

use std::collections::HashMap;
use std::fs::{File as FsFile, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::frame::{Change, NextFrame, decode, encode, frame, next_frame};
use super::saved_task::SavedTask;
use crate::task::TaskId;

/// The file is not rewritten while it is smaller than this.
const REWRITTEN_FROM_BYTES: u64 = 1 << 20;
/// The most records in a frame of a rewritten file.
const FRAME_BYTES: usize = 1 << 20;

/// An open file with the tasks that it holds.
#[derive(Debug)]
pub(super) struct TaskLog {
    path: PathBuf,
    file: FsFile,
    bytes: u64,
    /// The contents of the file if it were rewritten now.
    live_bytes: u64,
    tasks: HashMap<TaskId, SavedTask>,
    /// Whether there may be part of a frame behind the last complete one.
    is_torn: bool,
}

impl TaskLog {
    /// Opens or creates a file, and reads it. It fails if another process has it open, or if a part other than the end
    /// is damaged: tasks would be lost.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path)?;
        lock(&file, path)?;
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        let mut log = Self {
            path: path.to_owned(),
            file,
            bytes: 0,
            live_bytes: 0,
            tasks: HashMap::new(),
            is_torn: true,
        };
        log.read(&content)?;
        let unfinished = content.len() as u64 - log.bytes;
        if unfinished > 0 {
            tracing::warn!(
                "removed an unfinished write of {unfinished} bytes from the end of {}",
                path.display()
            );
        }
        log.truncate()?;
        Ok(log)
    }

    pub(super) fn tasks(&self) -> impl Iterator<Item = &SavedTask> {
        self.tasks.values()
    }

    /// Writes these changes, which then survive a crash. On an error none of them counts.
    pub(super) fn append(&mut self, changes: Vec<Change>) -> io::Result<()> {
        let mut records = Vec::new();
        for change in &changes {
            encode(change, &mut records);
        }
        let frame = frame(&records);
        if self.is_torn {
            self.truncate()?;
        }
        self.is_torn = true;
        self.file.write_all(&frame)?;
        self.file.sync_data()?;
        self.is_torn = false;
        self.bytes += frame.len() as u64;
        changes.into_iter().for_each(|change| self.apply(change));
        Ok(())
    }

    /// Rewrites the file if most of it is out of date.
    pub(super) fn shrink(&mut self) -> io::Result<()> {
        if self.bytes < REWRITTEN_FROM_BYTES || self.bytes < 2 * self.live_bytes {
            return Ok(());
        }
        let (path, folder) = (rewritten(&self.path), open_folder(&self.path)?);
        let mut file = FsFile::create(&path)?;
        lock(&file, &path)?;
        let (mut records, mut bytes) = (Vec::new(), 0);
        for task in self.tasks.values() {
            encode(&Change::Save(task.clone()), &mut records);
            if records.len() >= FRAME_BYTES {
                bytes += write_frame(&mut file, &mut records)?;
            }
        }
        bytes += write_frame(&mut file, &mut records)?;
        file.sync_all()?;
        std::fs::rename(&path, &self.path)?;
        (self.file, self.bytes, self.is_torn) = (file, bytes, false);
        // Without this the rename may be undone by a crash of the machine, with all later writes.
        folder.sync_all()
    }

    fn read(&mut self, content: &[u8]) -> io::Result<()> {
        let mut rest = content;
        while !rest.is_empty() {
            let changes = match next_frame(rest) {
                NextFrame::Torn => break,
                NextFrame::Complete {
                    records,
                    rest: after,
                } => {
                    rest = after;
                    decode(records)
                }
                NextFrame::Damaged => None,
            };
            let Some(changes) = changes else {
                return Err(self.damaged(content.len()));
            };
            changes.into_iter().for_each(|change| self.apply(change));
            self.bytes = (content.len() - rest.len()) as u64;
        }
        Ok(())
    }

    fn damaged(&self, bytes: usize) -> io::Error {
        let message = format!(
            "{} is damaged at byte {}, and has {} bytes behind it; restore it, or truncate it there to lose what follows",
            self.path.display(),
            self.bytes,
            bytes as u64 - self.bytes
        );
        io::Error::new(io::ErrorKind::InvalidData, message)
    }

    fn apply(&mut self, change: Change) {
        let before = match change {
            Change::Save(task) => {
                self.live_bytes += bytes_of(&task);
                self.tasks.insert(task.id, task)
            }
            Change::Delete(id) => self.tasks.remove(&id),
        };
        self.live_bytes -= before.map_or(0, |task| bytes_of(&task));
    }

    /// Removes what is behind the last complete frame.
    fn truncate(&mut self) -> io::Result<()> {
        self.file.set_len(self.bytes)?;
        self.file.seek(SeekFrom::Start(self.bytes))?;
        self.is_torn = false;
        Ok(())
    }
}

/// The bytes of the record that saves a task.
fn bytes_of(task: &SavedTask) -> u64 {
    (30 + task.task_type.len() + task.payload.len()) as u64
}

fn write_frame(file: &mut FsFile, records: &mut Vec<u8>) -> io::Result<u64> {
    let frame = frame(records);
    records.clear();
    file.write_all(&frame)?;
    Ok(frame.len() as u64)
}

fn lock(file: &FsFile, path: &Path) -> io::Result<()> {
    flock(file, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
        let message = format!("{} is used by another process: {error}", path.display());
        io::Error::new(io::ErrorKind::ResourceBusy, message)
    })
}

/// Opens the folder of a file, to make a rename there survive a crash.
fn open_folder(path: &Path) -> io::Result<FsFile> {
    let folder = path.parent();
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    FsFile::open(folder.unwrap_or(Path::new(".")))
}

/// The name of the new file while it is written.
fn rewritten(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".rewritten");
    PathBuf::from(name)
}
