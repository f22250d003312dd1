//! Memory, files and CPU time of a process, from `/proc`.

use std::fs;
use std::time::Duration;

/// The memory, files and CPU time that a process uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProcessUsage {
    pub(super) resident_bytes: u64,
    pub(super) open_files: u64,
    /// Of its present threads.
    pub(super) cpu_time: Duration,
    /// How long its present threads were ready to run and waited for a processor.
    pub(super) cpu_wait: Duration,
}

/// Returns what the process uses; `None` if it is not running, as during a restart.
pub(super) fn process_usage(pid: u32) -> Option<ProcessUsage> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = resident.split_whitespace().next()?.parse().ok()?;
    let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let of_task = |task: std::io::Result<fs::DirEntry>| {
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        let mut fields = text.split(' ').map(|field| field.parse::<u64>().ok());
        Some((fields.next()??, fields.next()??))
    };
    let (used, waited): (Vec<u64>, Vec<u64>) = tasks.filter_map(of_task).unzip();
    Some(ProcessUsage {
        resident_bytes: kib * 1024,
        open_files: files.count() as u64,
        cpu_time: Duration::from_nanos(used.iter().sum()),
        cpu_wait: Duration::from_nanos(waited.iter().sum()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something_and_one_that_is_not_there_nothing() {
        let used = process_usage(std::process::id()).unwrap();
        assert!(used.resident_bytes > 100_000, "{used:?}");
        assert!(used.open_files >= 3, "{used:?}");
        assert_eq!(process_usage(0), None);
    }
}
