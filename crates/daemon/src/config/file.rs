//! Files with settings.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Largest accepted file, in MiB. Settings take a few KiB; a path to anything else must not exhaust memory.
const MIB_MAX: u64 = 1;

/// Reads a file with settings, of at most 1 MiB. Blocks on file I/O.
///
/// # Errors
/// The file cannot be read, is larger than 1 MiB, or is not UTF-8. The message does not name the file; the
/// caller adds it.
pub fn read_file(path: &Path) -> Result<String, String> {
    let bytes = read_bounded(path).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MIB_MAX << 20 {
        return Err(format!(
            "larger than {MIB_MAX} MiB: name a file that has only settings in it"
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = error
            .as_bytes()
            .iter()
            .take(error.utf8_error().valid_up_to());
        let line = before.filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line} is not UTF-8: save the file in UTF-8")
    })
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    file.take((MIB_MAX << 20) + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_mib_is_read_and_a_larger_one_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        assert_eq!(read_file(file.path()).unwrap().len(), 1 << 20);
        file.as_file().set_len((1 << 20) + 1).unwrap();
        let message = read_file(file.path()).unwrap_err();
        assert!(message.starts_with("larger than 1 MiB"), "{message}");
        let message = read_file(Path::new("/dev/zero")).unwrap_err();
        assert!(message.starts_with("larger than 1 MiB"), "{message}");
    }

    #[test]
    fn the_line_that_is_not_utf8_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"[log]\n# f\xfcr alle\n").unwrap();
        let message = read_file(file.path()).unwrap_err();
        assert_eq!(message, "line 2 is not UTF-8: save the file in UTF-8");
    }
}
