//! A disk that is full, as far as one Redis can see.
//!
//! A file system of its own would need rights that tests should not have. The limit that a process has on the size of
//! its files (`RLIMIT_FSIZE`) does the same at the same place: a write of the append-only file fails, in its
//! middle if need be. The error is `EFBIG` in place of `ENOSPC`; Redis does not tell them apart.

use std::path::PathBuf;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tidegate_local_redis::RedisServer;

const APPEND_ONLY_FOLDER: &str = "appendonlydir";

/// From now on the append-only file can grow by so many bytes only; `None` lifts the limit. The server must
/// have been started with [`RedisOptions::outlives_a_full_disk`](crate::RedisOptions::outlives_a_full_disk).
///
/// # Panics
/// When it does not run or has no append-only file.
pub fn limit_disk(redis: &RedisServer, room_bytes: Option<u64>) {
    let pid = redis.pid().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    let pid = pid.expect("redis runs");
    let limit = Rlimit {
        current: room_bytes.map(|room| largest_file(redis) + room),
        maximum: None,
    };
    prlimit(Some(pid), Resource::Fsize, limit).expect("a soft limit can be set");
}

fn largest_file(redis: &RedisServer) -> u64 {
    let folder: PathBuf = redis.data_folder().join(APPEND_ONLY_FOLDER);
    let files = std::fs::read_dir(folder).expect("redis writes an append-only file");
    let sizes = files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len()));
    sizes.max().unwrap_or_default()
}
