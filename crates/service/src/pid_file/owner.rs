//! Whether a pid file belongs to a process that runs, but does not lock it.

use std::fs;
use std::time::{Duration, SystemTime};

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

/// The clocks of files and of processes move in steps of up to 10 ms.
const STEP: Duration = Duration::from_millis(100);

/// Whether process `id` runs, and ran already when a file that names it was written.
///
/// The id alone does not say whose file it is: after a crash or a reboot any process may have it, in a container often
/// the same one after each start, and then the daemon must start. So ages are compared. Of two processes with the same
/// id the second one begins after the end of the first. A process that is older than the file had the id when the file
/// was written: the file is about this process. One that is younger got the id of a process that has ended.
///
/// The age of a process is counted from the boot, which no setting of the clock changes; that of a file is not. Where a
/// clock was set back since the file was written, such as at the boot of a machine without a clock of its own, the file
/// is from the future and counts as left behind. So it does where the process cannot be seen (no `/proc`, or one that
/// hides the processes of others), and for a while after a clock was set forward. A process that has ended and that its
/// parent has not waited for counts as ended.
pub(super) fn is_owner(id: u32, written: SystemTime) -> bool {
    let Ok(age_of_file) = SystemTime::now().duration_since(written) else {
        return false;
    };
    age(id).is_some_and(|age| age + STEP >= age_of_file)
}

/// For how long a process has been running.
fn age(id: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name of the program is in parentheses, and may have parentheses and spaces in it.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    // The third field of all, and the 22nd.
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
mod tests {
    use std::process::{Child, Command};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    struct Running(Child);

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn running() -> Running {
        Running(Command::new("sleep").arg("600").spawn().unwrap())
    }

    #[test]
    fn a_process_owns_files_that_are_younger_than_itself() {
        let process = running();
        let id = process.0.id();
        assert!(is_owner(id, SystemTime::now()));
        // Its id was that of another process then.
        assert!(!is_owner(id, SystemTime::now() - HOUR));
        // The clock was set back.
        assert!(!is_owner(id, SystemTime::now() + HOUR));
        drop(process);
        assert!(!is_owner(id, SystemTime::now()));
        assert!(!is_owner(0, SystemTime::now()));
    }

    #[test]
    fn a_process_that_was_not_waited_for_owns_nothing() {
        let mut process = running();
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
