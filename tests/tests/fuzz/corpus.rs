//! Streams that are sent in every run: `corpus/PORT-WHAT-THEY-TRY.http`, byte for byte.

use std::path::{Path, PathBuf};

use crate::long;
use crate::target::Port;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fuzz/corpus");

/// A stream, and where it is sent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) port: Port,
    pub(crate) bytes: Vec<u8>,
}

/// The entries in the repository, and those that are too long for a file.
pub(crate) fn shipped() -> Vec<Entry> {
    let mut entries = read(Path::new(FOLDER));
    assert!(!entries.is_empty(), "the corpus is empty");
    entries.extend(long::entries());
    entries
}

/// The entries of a folder, or of one file.
pub(crate) fn read(path: &Path) -> Vec<Entry> {
    let paths: Vec<PathBuf> = match path.is_dir() {
        false => vec![path.to_owned()],
        true => {
            let listed = std::fs::read_dir(path).unwrap();
            let paths = listed.map(|entry| entry.unwrap().path());
            paths
                .filter(|path| path.extension().is_some_and(|it| it == "http"))
                .collect()
        }
    };
    let mut entries: Vec<Entry> = paths.iter().map(|path| entry(path)).collect();
    entries.sort();
    entries
}

fn entry(path: &Path) -> Entry {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let port = [Port::Public, Port::Admin]
        .into_iter()
        .find(|port| name.starts_with(port.name()));
    let bytes = std::fs::read(path);
    Entry {
        port: port.unwrap_or_else(|| panic!("{name} should begin with public or admin")),
        bytes: bytes.unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        name: name.into_owned(),
    }
}
