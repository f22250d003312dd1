//! `SHA256SUMS`, as `sha256sum --check` reads it.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::io::failed_at;

pub(crate) const NAME: &str = "SHA256SUMS";

/// Writes the checksums of these files of a folder, sorted by name.
pub(crate) fn write(folder: &Path, names: &[String]) -> Result<(), String> {
    let mut names: Vec<&String> = names.iter().collect();
    names.sort();
    let mut text = String::new();
    for name in names {
        let path = folder.join(name);
        let content = fs::read(&path).map_err(failed_at(&path))?;
        let _ = writeln!(text, "{}  {name}", sha256(&content));
    }
    let path = folder.join(NAME);
    fs::write(&path, text).map_err(failed_at(&path))
}

pub(crate) fn sha256(content: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(content) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standard() {
        let of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), of_abc);
    }
}
