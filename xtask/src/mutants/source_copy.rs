//! A copy of the sources, in which mutants are planted.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::list::Mutant;

/// Folders that are not copied: build results and the history.
const LEFT_OUT: [&str; 2] = ["target", ".git"];

#[derive(Debug)]
pub(super) struct SourceCopy {
    root: PathBuf,
    logs: PathBuf,
}

/// A file of the copy with a planted mutant.
#[derive(Debug)]
pub(super) struct PlantedMutant {
    path: PathBuf,
    original: String,
}

impl SourceCopy {
    /// Synchronizes the copy in `folder` with the sources in `root`. Equal files are not written, so that cargo
    /// rebuilds only changed files.
    pub(super) fn refresh(root: &Path, folder: &Path) -> Result<Self, String> {
        let copy = Self {
            root: folder.join("tree"),
            logs: folder.join("logs"),
        };
        let failed = |error: io::Error| {
            format!(
                "failed to copy the sources to {}: {error}",
                copy.root.display()
            )
        };
        fs::create_dir_all(copy.target()).map_err(failed)?;
        fs::create_dir_all(&copy.logs).map_err(failed)?;
        let wanted = files(root).map_err(failed)?;
        for path in &wanted {
            copy_file(&root.join(path), &copy.root.join(path)).map_err(failed)?;
        }
        for path in files(&copy.root).map_err(failed)?.difference(&wanted) {
            fs::remove_file(copy.root.join(path)).map_err(failed)?;
        }
        // Tests look for a Redis in their target folder before they download one.
        let redis = copy.target().join("redis-server");
        if redis.symlink_metadata().is_err() {
            symlink(root.join("target/redis-server"), redis).map_err(failed)?;
        }
        Ok(copy)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn target(&self) -> PathBuf {
        self.root.join("target")
    }

    /// The folder of the checks' output.
    pub(super) fn logs(&self) -> &Path {
        &self.logs
    }

    /// Returns the file of a mutant, its text, and its text with the mutant.
    pub(super) fn with_mutant(&self, mutant: &Mutant) -> Result<(PathBuf, String, String), String> {
        let path = self.root.join(&mutant.file);
        let original = fs::read_to_string(&path)
            .map_err(|error| format!("mutant {}: {}: {error}", mutant.name, path.display()))?;
        let mutated = mutant.apply(&original)?;
        Ok((path, original, mutated))
    }

    pub(super) fn plant(&self, mutant: &Mutant) -> Result<PlantedMutant, String> {
        let (path, original, mutated) = self.with_mutant(mutant)?;
        fs::write(&path, mutated).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(PlantedMutant { path, original })
    }
}

impl PlantedMutant {
    /// Restores the original. If the process ends before, the next [`SourceCopy::refresh`] does.
    pub(super) fn undo(self) -> Result<(), String> {
        fs::write(&self.path, self.original)
            .map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

/// Returns all files below a folder, relative to it.
fn files(root: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let name = entry.file_name();
            if LEFT_OUT.iter().any(|left_out| name == *left_out) {
                continue;
            }
            let path = folder.join(name);
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else {
                found.insert(path);
            }
        }
    }
    Ok(found)
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let wanted = fs::read(from)?;
    if fs::read(to).is_ok_and(|current| current == wanted) {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    // Keeps the permissions but not the modification time, so that cargo detects the change.
    fs::copy(from, to).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::list::MutantList;

    const LIST: &str = r#"
        [[mutant]]
        name = "one"
        breaks = "It breaks something."
        file = "src/lib.rs"
        find = "old"
        replace = "new"
        checks = ["cargo test -p a --lib b"]
    "#;

    #[test]
    fn a_mutant_is_planted_only_in_the_copy_and_undone() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("sources");
        fs::create_dir_all(root.join("src")).unwrap();
        fs::create_dir_all(root.join("target/debug")).unwrap();
        fs::write(root.join("target/debug/x"), "built").unwrap();
        fs::write(root.join("src/lib.rs"), "the old text").unwrap();
        let copy = SourceCopy::refresh(&root, &folder.path().join("mutants")).unwrap();
        let copied = copy.root().join("src/lib.rs");
        let written_at = copied.metadata().unwrap().modified().unwrap();
        assert!(!copy.target().join("debug").exists());

        let mut list = MutantList::default();
        list.add("area", LIST).unwrap();
        let planted = copy.plant(&list.mutants[0]).unwrap();
        assert_eq!(fs::read_to_string(&copied).unwrap(), "the new text");
        assert_eq!(
            fs::read_to_string(root.join("src/lib.rs")).unwrap(),
            "the old text"
        );
        planted.undo().unwrap();
        assert_eq!(fs::read_to_string(&copied).unwrap(), "the old text");

        fs::write(copy.root().join("src/gone.rs"), "").unwrap();
        let written_again_at = copied.metadata().unwrap().modified().unwrap();
        SourceCopy::refresh(&root, &folder.path().join("mutants")).unwrap();
        assert!(written_again_at >= written_at);
        assert_eq!(
            copied.metadata().unwrap().modified().unwrap(),
            written_again_at
        );
        assert!(!copy.root().join("src/gone.rs").exists());
    }
}
