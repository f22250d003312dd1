//! The command line of a process.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::command;

const PS_LIMIT: Duration = Duration::from_secs(5);

/// Returns the program and arguments of a running process, or `None` if there is no such process or the system does not
/// show them.
///
/// A process id alone does not identify a process: it may have been reused.
#[must_use]
pub fn process_title(pid: u32) -> Option<String> {
    let title = match fs::read(format!("/proc/{pid}/cmdline")) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).replace('\0', " "),
        Err(_) => command::run(
            Command::new("ps").args(["-o", "args=", "-p", &pid.to_string()]),
            PS_LIMIT,
        )
        .ok()?,
    };
    Some(title.trim().to_owned()).filter(|title| !title.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_title_and_an_impossible_one_has_none() {
        let title = process_title(std::process::id()).unwrap();
        assert!(title.contains("tidegate_local_program"), "{title}");
        assert_eq!(process_title(u32::MAX - 1), None);
    }
}
