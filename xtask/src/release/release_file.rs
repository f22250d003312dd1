//! A file of the archive or of a package.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::rc::Rc;

use flate2::{Compression, GzBuilder};

use super::io::failed_at;

/// The level of `gzip -9`, which the Debian policy requires.
const SMALLEST: Compression = Compression::best();

/// A file of the archive or of a package.
#[derive(Debug, Clone)]
pub(crate) struct ReleaseFile {
    /// Below the root of the archive or package, without a slash in front.
    pub(crate) path: String,
    pub(crate) mode: u32,
    pub(crate) content: Rc<[u8]>,
}

impl ReleaseFile {
    pub(crate) fn new(path: impl Into<String>, mode: u32, content: impl Into<Rc<[u8]>>) -> Self {
        Self {
            path: path.into(),
            mode,
            content: content.into(),
        }
    }

    /// A file that all may read.
    pub(crate) fn readable(path: impl Into<String>, content: impl Into<Rc<[u8]>>) -> Self {
        Self::new(path, 0o644, content)
    }

    /// A copy of a file of the repository.
    pub(crate) fn copy(root: &Path, from: &str, to: impl Into<String>) -> Result<Self, String> {
        let path = root.join(from);
        let content = fs::read(&path).map_err(failed_at(&path))?;
        Ok(Self::readable(to, content))
    }

    /// The same file, compressed, with `.gz` at the end of its name. Its time is not stored.
    pub(crate) fn gzipped(self) -> Result<Self, String> {
        let mut encoder = GzBuilder::new().write(Vec::new(), SMALLEST);
        let written = encoder.write_all(&self.content);
        let compressed = written.and_then(|()| encoder.finish());
        let compressed = compressed.map_err(|error| format!("{}: {error}", self.path))?;
        Ok(Self::new(
            format!("{}.gz", self.path),
            self.mode,
            compressed,
        ))
    }
}
