//! Tasks in a file.

use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::frame::Change;
use super::log::TaskLog;
use super::saved_task::{Persistence, SavedTask};
use crate::task::TaskId;

/// The most bytes of payloads in a write, besides the last one.
const BYTES_MAX: usize = 16 << 20;
/// The most changes that one write has.
const CHANGES_MAX: usize = 4096;

/// Keeps tasks in a file, to which a thread appends them. Changes that arrive while it waits for the disk are written
/// and synced together. The file is rewritten when it is larger than 1 MiB and twice as large as the tasks in it.
///
/// The file has one user: a second process that opens it gets an error. The rest of an unfinished write, left by a
/// crash, is removed; damage in any other place is an error, since tasks would be lost.
#[derive(Debug)]
pub struct File {
    requests: mpsc::Sender<FileRequest>,
    loaded: Mutex<Vec<SavedTask>>,
    /// Ready once the thread has ended, so that the file can be opened again.
    closed: Mutex<Option<oneshot::Receiver<()>>>,
}

#[derive(Debug)]
enum FileRequest {
    Change(Change, Answer),
    Close,
}

type Answer = oneshot::Sender<io::Result<()>>;

impl File {
    /// Opens or creates a file. This blocks while it is read.
    ///
    /// # Errors
    ///
    /// [`ResourceBusy`](io::ErrorKind::ResourceBusy) if another process uses it,
    /// [`InvalidData`](io::ErrorKind::InvalidData) if it is damaged, and errors of the file system.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let log = TaskLog::open(path.as_ref())?;
        let loaded = log.tasks().cloned().collect();
        #[expect(
            clippy::disallowed_methods,
            reason = "received by a thread; each caller waits for its request"
        )]
        let (requests, received) = mpsc::channel();
        let (closing, closed) = oneshot::channel();
        thread::Builder::new()
            .name("wheel-file".to_owned())
            .spawn(move || {
                write_all(log, &received);
                // No one waits if the file was dropped.
                let _ = closing.send(());
            })?;
        Ok(Self {
            requests,
            loaded: Mutex::new(loaded),
            closed: Mutex::new(Some(closed)),
        })
    }

    fn request(&self, change: Change) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (answer, answered) = oneshot::channel();
        // If the thread has ended, the receiver says so.
        let _ = self.requests.send(FileRequest::Change(change, answer));
        async move { answered.await.unwrap_or_else(|_| Err(closed())) }
    }
}

impl Persistence for File {
    fn save(&self, task: SavedTask) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.request(Change::Save(task))
    }

    fn delete(&self, id: TaskId) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.request(Change::Delete(id))
    }

    async fn load(&self) -> io::Result<Vec<SavedTask>> {
        Ok(std::mem::take(&mut self.loaded.lock()))
    }

    async fn close(&self) -> io::Result<()> {
        let _ = self.requests.send(FileRequest::Close);
        let ended = self.closed.lock().take();
        match ended {
            Some(ended) => ended.await.map_err(|_| closed()),
            None => Ok(()),
        }
    }
}

/// Writes changes until the file is closed or dropped.
fn write_all(mut log: TaskLog, requests: &mpsc::Receiver<FileRequest>) {
    let mut is_open = true;
    while is_open {
        let Ok(first) = requests.recv() else { return };
        let (mut changes, mut answers, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut next = Some(first);
        while let Some(request) = next {
            match request {
                FileRequest::Change(change, answer) => {
                    bytes += match &change {
                        Change::Save(task) => task.payload.len(),
                        Change::Delete(_) => 0,
                    };
                    changes.push(change);
                    answers.push(answer);
                }
                FileRequest::Close => is_open = false,
            }
            let has_room = is_open && changes.len() < CHANGES_MAX && bytes < BYTES_MAX;
            next = has_room.then(|| requests.try_recv().ok()).flatten();
        }
        if !changes.is_empty() {
            write(&mut log, changes, answers);
        }
    }
}

fn write(log: &mut TaskLog, changes: Vec<Change>, answers: Vec<Answer>) {
    let result = log.append(changes);
    if let Err(error) = &result {
        tracing::error!("failed to save {} changes of tasks: {error}", answers.len());
    }
    for answer in answers {
        // io::Error cannot be cloned. No one waits if the future was dropped.
        let _ = answer.send(match &result {
            Ok(()) => Ok(()),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        });
    }
    if let Err(error) = log.shrink() {
        tracing::warn!(
            "failed to rewrite the file of tasks; it grows until that succeeds: {error}"
        );
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the file of tasks is closed")
}
