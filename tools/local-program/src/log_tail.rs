//! The end of a log file.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

const LINES_MAX: usize = 12;
const BYTES_READ: u64 = 8192;

/// Returns the last lines of a file (at most 12, from the last 8 KiB), starting at byte `since` at the earliest. Empty
/// if the file cannot be read.
#[must_use]
pub fn log_tail(path: &Path, since: u64) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let from = since.max(file.metadata()?.len().saturating_sub(BYTES_READ));
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    lines[lines.len().saturating_sub(LINES_MAX)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_tail_is_short_and_respects_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        assert_eq!(log_tail(&path, 0), "");
        let text: String = (0..40).map(|number| format!("line {number}\n")).collect();
        std::fs::write(&path, &text).unwrap();
        assert_eq!(log_tail(&path, 0).lines().count(), LINES_MAX);
        assert!(log_tail(&path, 0).ends_with("line 39"));
        assert_eq!(log_tail(&path, text.len() as u64 - 8), "line 39");
    }
}
