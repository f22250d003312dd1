//! Simulates a full disk for one Redis.
//!
//! A separate file system would need privileges that tests should not have. The limit on the size of a process's
//! files (`RLIMIT_FSIZE`) has the same effect: a write to the append-only file fails, possibly after a part. The
//! error is `EFBIG` instead of `ENOSPC`; Redis handles both alike.

use std::path::PathBuf;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tidegate_local_redis::RedisServer;

const APPEND_ONLY_FOLDER: &str = "appendonlydir";

/// Limits the growth of the append-only file to `room_bytes`; `None` removes the limit. The server must have
/// been started with [`RedisOptions::ignores_sigxfsz`](crate::RedisOptions::ignores_sigxfsz).
///
/// # Panics
/// If it does not run or has no append-only file.
pub fn limit_file_size(redis: &RedisServer, room_bytes: Option<u64>) {
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
