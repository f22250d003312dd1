//! A wrong wall clock for single processes.

use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = include_str!("wall_clock.c");

/// The wall clock of one process. It can be set while the process runs.
#[derive(Debug)]
pub struct WallClock {
    library: PathBuf,
    offset: PathBuf,
}

impl WallClock {
    /// Creates a clock without an offset, with its files in `folder`. `name` distinguishes it from
    /// others there.
    ///
    /// # Panics
    /// If there is no C compiler (which the build of the project requires as well).
    #[must_use]
    pub fn new(folder: &Path, name: &str) -> Self {
        let library = folder.join("wall_clock.so");
        if !library.exists() {
            compile(folder, &library);
        }
        let clock = Self {
            library,
            offset: folder.join(format!("{name}.wall-clock")),
        };
        clock.set(0);
        clock
    }

    /// Returns the environment variables that give a process this clock.
    #[must_use]
    pub fn environment(&self) -> [(&str, String); 2] {
        [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("TG_WALL_CLOCK", self.offset.display().to_string()),
        ]
    }

    /// Sets the offset of the clock in seconds; a negative one sets it back.
    ///
    /// # Panics
    /// If its file cannot be written.
    pub fn set(&self, ahead_s: i64) {
        // Renamed atomically, so that no process reads an incomplete number.
        let new = self.offset.with_extension("new");
        std::fs::write(&new, ahead_s.to_string()).expect("a file can be written");
        std::fs::rename(&new, &self.offset).expect("a file can be renamed");
    }
}

fn compile(folder: &Path, library: &Path) {
    let source = folder.join("wall_clock.c");
    std::fs::write(&source, SOURCE).expect("a file can be written");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O2", "-o"]);
    let status = compiler.arg(library).arg(&source).arg("-ldl").status();
    assert!(
        status.as_ref().is_ok_and(std::process::ExitStatus::success),
        "cc cannot compile {}: {status:?}",
        source.display()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn year_seen(clock: &WallClock) -> String {
        let mut date = Command::new("date");
        date.arg("-u").arg("+%Y").envs(clock.environment());
        let output = date.output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn a_process_sees_its_shifted_clock() {
        const TWO_YEARS_S: i64 = 2 * 366 * 24 * 3600;
        let folder = tempfile::tempdir().unwrap();
        let clock = WallClock::new(folder.path(), "date");
        let now: i64 = year_seen(&clock).parse().unwrap();
        clock.set(TWO_YEARS_S);
        assert_eq!(year_seen(&clock).parse::<i64>().unwrap(), now + 2);
        clock.set(-TWO_YEARS_S);
        assert_ne!(year_seen(&clock).parse::<i64>().unwrap(), now);
    }
}
