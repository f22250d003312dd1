//! Whether an unlocked pid file belongs to a running process.

use std::fs;
use std::time::{Duration, SystemTime};

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

/// Tolerance of the comparison. Timestamps of files and processes have a resolution of up to 10 ms.
const STEP: Duration = Duration::from_millis(100);

/// Whether process `id` is running, and was running when a file that names it was written.
///
/// The id alone is not enough: after a crash or a reboot another process may have it, in a container often the same one
/// at every start, and then the daemon must start. So ages are compared. Of two processes with the same id, the second
/// one starts after the end of the first. A process that is older than the file had the id when the file was written,
/// so the file names this process. A younger one reuses the id of a process that has ended.
///
/// The age of a process comes from the time since boot, which a change of the wall clock does not affect; the age of a
/// file comes from the wall clock. If the clock was set back after the file was written, such as at the boot of a
/// machine without a hardware clock, the file is from the future and counts as stale. It also counts as stale if the
/// process is not visible (no `/proc`, or a `/proc` that hides the processes of other users), and for a while after the
/// clock was set forward. A zombie process counts as ended.
pub(super) fn is_owner(id: u32, written: SystemTime) -> bool {
    #[expect(
        clippy::disallowed_methods,
        reason = "compared with the time of a file"
    )]
    let Ok(age_of_file) = SystemTime::now().duration_since(written) else {
        return false;
    };
    process_age(id).is_some_and(|age| age + STEP >= age_of_file)
}

/// Returns how long a process has been running; `None` if it has ended or is not visible.
fn process_age(id: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The program name is in parentheses, and may itself contain parentheses and spaces.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    // Fields 3 (state) and 22 (start time) of the whole line.
    let state = fields.next()?;
    let start: u64 = fields.nth(18)?.parse().ok()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    let per_second = clock_ticks_per_second().max(1);
    let start = Duration::from_millis(start.checked_mul(1000)? / per_second);
    let now: Duration = clock_gettime(ClockId::Boottime).try_into().ok()?;
    now.checked_sub(start)
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "compared with the time of a file"
)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    struct SleepingChild(Child);

    impl Drop for SleepingChild {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn start_sleeping_child() -> SleepingChild {
        SleepingChild(Command::new("sleep").arg("600").spawn().unwrap())
    }

    #[test]
    fn a_process_owns_files_that_are_younger_than_itself() {
        let process = start_sleeping_child();
        let id = process.0.id();
        assert!(is_owner(id, SystemTime::now()));
        // The file is older than the process: the id belonged to another process.
        assert!(!is_owner(id, SystemTime::now() - HOUR));
        // The clock was set back.
        assert!(!is_owner(id, SystemTime::now() + HOUR));
        drop(process);
        assert!(!is_owner(id, SystemTime::now()));
        assert!(!is_owner(0, SystemTime::now()));
    }

    #[test]
    fn a_zombie_owns_nothing() {
        let mut process = start_sleeping_child();
        process.0.kill().unwrap();
        let id = process.0.id();
        let until = std::time::Instant::now() + Duration::from_secs(20);
        while is_owner(id, SystemTime::now()) {
            assert!(std::time::Instant::now() < until);
            std::thread::yield_now();
        }
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        assert!(stat.contains(") Z "), "{stat}");
    }
}
