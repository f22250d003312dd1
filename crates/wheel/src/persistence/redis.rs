//! Tasks in a hash of Redis.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::redis::aio::{ConnectionManager, ConnectionManagerConfig};
use ::redis::{Client, RedisError, Script};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, sleep};
use ulid::Ulid;

use super::saved_task::{Persistence, SavedTask};
use crate::task::TaskId;

/// For how long the lock of a wheel that has ended without closing keeps others out.
const LOCKED_FOR: Duration = Duration::from_secs(15);
const RENEW_INTERVAL: Duration = Duration::from_secs(5);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// The longest wait for a connection, and for a reply.
const REPLY_LIMIT: Duration = Duration::from_secs(5);
/// The most changes that one call has.
const CHANGES_MAX: usize = 1000;
/// The most bytes of payloads in a call, besides the last one.
const BYTES_MAX: usize = 1 << 20;

/// KEYS: the hash, the lock. ARGV: the owner, how long the lock lasts in ms, and for each change the id and the record,
/// which is empty for a deletion. Returns 0 if another wheel has the lock.
const CHANGE: &str = "
local owner = redis.call('GET', KEYS[2])
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
for i = 3, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', KEYS[1], ARGV[i])
  else
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  end
end
return 1";

/// KEYS: the lock. ARGV: the owner.
const UNLOCK: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end";

/// Keeps tasks in a hash of Redis, for a process without a disk of its own. Changes that arrive while a call is in flight are sent
/// together in the next one. The append-only file of Redis decides what a crash of Redis loses.
///
/// A hash has one wheel: a lock beside it (`KEY:owner`) keeps others out. It needs the feature `redis`.
#[derive(Debug)]
pub struct Redis {
    changes: Mutex<Option<mpsc::UnboundedSender<Change>>>,
    loaded: Mutex<Vec<SavedTask>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// The record of a task, `None` if it is deleted.
#[derive(Debug)]
struct Change {
    id: TaskId,
    record: Option<Vec<u8>>,
    answer: oneshot::Sender<io::Result<()>>,
}

impl Redis {
    /// Connects to the Redis at `url`, such as `redis://127.0.0.1/0`, and reads the tasks of the hash `key`. If another
    /// process has ended without closing the hash, this waits until its lock ends, for up to 15 s. Call it in a Tokio
    /// runtime.
    ///
    /// # Errors
    ///
    /// [`ResourceBusy`](io::ErrorKind::ResourceBusy) if another process uses the hash,
    /// [`InvalidData`](io::ErrorKind::InvalidData) if a record is damaged, and errors of Redis.
    pub async fn connect(url: &str, key: &str) -> io::Result<Self> {
        let client = Client::open(url).map_err(failed)?;
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(REPLY_LIMIT))
            .set_response_timeout(Some(REPLY_LIMIT))
            .set_number_of_retries(1);
        let connecting = ConnectionManager::new_with_config(client, config);
        let mut hash = TaskHash {
            connection: connecting.await.map_err(failed)?,
            key: key.to_owned(),
            lock: format!("{key}:owner"),
            owner: Ulid::generate().to_string(),
        };
        hash.lock().await?;
        let loaded = hash.load().await?;
        #[expect(
            clippy::disallowed_methods,
            reason = "each caller waits for its change"
        )]
        let (changes, received) = mpsc::unbounded_channel();
        let writer = tokio::spawn(write_all(hash, received));
        Ok(Self {
            changes: Mutex::new(Some(changes)),
            loaded: Mutex::new(loaded),
            writer: Mutex::new(Some(writer)),
        })
    }

    fn change(
        &self,
        id: TaskId,
        record: Option<Vec<u8>>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (answer, answered) = oneshot::channel();
        if let Some(changes) = &*self.changes.lock() {
            // If the writer has ended, the receiver says so.
            let _ = changes.send(Change { id, record, answer });
        }
        async move { answered.await.unwrap_or_else(|_| Err(closed())) }
    }
}

impl Persistence for Redis {
    fn save(&self, task: SavedTask) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.change(task.id, Some(record(&task)))
    }

    fn delete(&self, id: TaskId) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.change(id, None)
    }

    async fn load(&self) -> io::Result<Vec<SavedTask>> {
        Ok(std::mem::take(&mut self.loaded.lock()))
    }

    async fn close(&self) -> io::Result<()> {
        self.changes.lock().take();
        let writer = self.writer.lock().take();
        match writer {
            Some(writer) => writer.await.map_err(io::Error::other),
            None => Ok(()),
        }
    }
}

/// The hash, and its lock.
struct TaskHash {
    connection: ConnectionManager,
    key: String,
    lock: String,
    owner: String,
}

impl TaskHash {
    async fn lock(&mut self) -> io::Result<()> {
        let given_up_at = Instant::now() + LOCKED_FOR + LOCK_RETRY_INTERVAL;
        loop {
            match self.apply(&[]).await {
                Err(error)
                    if error.kind() == io::ErrorKind::ResourceBusy
                        && Instant::now() < given_up_at => {}
                locked => return locked,
            }
            sleep(LOCK_RETRY_INTERVAL).await;
        }
    }

    async fn load(&mut self) -> io::Result<Vec<SavedTask>> {
        let all = ::redis::Cmd::hgetall(&self.key);
        let fields: Vec<(Vec<u8>, Vec<u8>)> = all
            .query_async(&mut self.connection)
            .await
            .map_err(failed)?;
        let tasks = fields.iter().map(|(id, record)| {
            task(id, record).ok_or_else(|| {
                let id = String::from_utf8_lossy(id);
                let message = format!("the task {id} in the hash {} is damaged", self.key);
                io::Error::new(io::ErrorKind::InvalidData, message)
            })
        });
        tasks.collect()
    }

    /// Makes the changes, and renews the lock.
    async fn apply(&mut self, changes: &[Change]) -> io::Result<()> {
        let script = Script::new(CHANGE);
        let mut call = script.key(&self.key);
        call.key(&self.lock).arg(&self.owner);
        call.arg(LOCKED_FOR.as_millis() as u64);
        for change in changes {
            call.arg(change.id.to_string());
            call.arg(change.record.as_deref().unwrap_or_default());
        }
        match call.invoke_async(&mut self.connection).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                let message = format!("another wheel uses the hash {}", self.key);
                Err(io::Error::new(io::ErrorKind::ResourceBusy, message))
            }
            Err(error) => Err(failed(error)),
        }
    }

    async fn unlock(&mut self) {
        let script = Script::new(UNLOCK);
        let mut call = script.key(&self.lock);
        let unlocked: Result<(), _> = call
            .arg(&self.owner)
            .invoke_async(&mut self.connection)
            .await;
        if let Err(error) = unlocked {
            tracing::warn!(
                "failed to unlock the hash {}, which stays locked for {LOCKED_FOR:?}: {error}",
                self.key
            );
        }
    }
}

/// Makes changes until the hash is closed or dropped.
async fn write_all(mut hash: TaskHash, mut received: mpsc::UnboundedReceiver<Change>) {
    let mut renewals = interval(RENEW_INTERVAL);
    loop {
        tokio::select! {
            change = received.recv() => {
                let Some(first) = change else { break };
                let changes = gathered(first, &mut received);
                let result = hash.apply(&changes).await;
                if let Err(error) = &result {
                    tracing::error!("failed to save {} changes of tasks: {error}", changes.len());
                }
                for change in changes {
                    // io::Error cannot be cloned. No one waits if the future was dropped.
                    let _ = change.answer.send(match &result {
                        Ok(()) => Ok(()),
                        Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
                    });
                }
            }
            _ = renewals.tick() => {
                if let Err(error) = hash.apply(&[]).await {
                    tracing::warn!("failed to renew the lock of the hash {}: {error}", hash.key);
                }
            }
        }
    }
    hash.unlock().await;
}

/// The first change, and the changes that wait behind it.
fn gathered(first: Change, received: &mut mpsc::UnboundedReceiver<Change>) -> Vec<Change> {
    let length = |change: &Change| change.record.as_ref().map_or(0, Vec::len);
    let mut bytes = length(&first);
    let mut changes = vec![first];
    while changes.len() < CHANGES_MAX && bytes < BYTES_MAX {
        let Ok(next) = received.try_recv() else { break };
        bytes += length(&next);
        changes.push(next);
    }
    changes
}

/// `DUE TYPE_BYTES TYPE PAYLOAD`, with the due time in ms since 1970.
fn record(task: &SavedTask) -> Vec<u8> {
    let due = task.due.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (task_type, due_ms) = (&task.task_type, due.as_millis());
    let mut record = format!("{due_ms} {} {task_type} ", task_type.len()).into_bytes();
    record.extend_from_slice(&task.payload);
    record
}

fn task(id: &[u8], record: &[u8]) -> Option<SavedTask> {
    let id: Ulid = std::str::from_utf8(id).ok()?.parse().ok()?;
    let mut parts = record.splitn(3, |byte| *byte == b' ');
    let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse::<u64>().ok();
    let (due_ms, type_bytes) = (number()?, usize::try_from(number()?).ok()?);
    let rest = parts.next()?;
    let (task_type, payload) = (rest.get(..type_bytes)?, rest.get(type_bytes + 1..)?);
    Some(SavedTask {
        id: TaskId::from_bytes(id.to_bytes()),
        task_type: Arc::from(std::str::from_utf8(task_type).ok()?),
        due: due_at(due_ms)?,
        payload: Arc::from(payload),
    })
}

fn due_at(due_ms: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(due_ms))
}

fn failed(error: RedisError) -> io::Error {
    io::Error::other(error)
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the hash of tasks is closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_all_of_a_task() {
        for (task_type, payload) in [("close order", "{\"order\":17}"), ("", ""), ("é", " ")] {
            let saved = SavedTask {
                id: TaskId::from_bytes([7; 16]),
                task_type: Arc::from(task_type),
                due: due_at(1_800_000_000_123).unwrap(),
                payload: Arc::from(payload.as_bytes()),
            };
            let read = task(saved.id.to_string().as_bytes(), &record(&saved));
            assert_eq!(read, Some(saved));
        }
        let id = TaskId::from_bytes([7; 16]).to_string();
        for damaged in ["", "1", "1 2", "1 2 x", "x 1 a b", "1 9 abc d", "-1 1 a b"] {
            assert_eq!(task(id.as_bytes(), damaged.as_bytes()), None, "{damaged}");
        }
        assert_eq!(task(b"no id", b"1 1 a b"), None);
    }
}
