//! The text files of the project.

use std::fs;
use std::path::Path;

/// Hidden folders to read; others belong to the developer's tools.
const DOT_FOLDERS: [&str; 4] = [".cargo", ".ci", ".config", ".github"];
const TEXT_EXTENSIONS: [&str; 11] = [
    "conf", "json", "lua", "md", "rs", "service", "sh", "toml", "txt", "yaml", "yml",
];
/// Text files without an extension.
const TEXT_NAMES: [&str; 3] = ["Dockerfile", "LICENSE", "run"];
const NOT_OURS: [&str; 2] = ["Cargo.lock", "target"];

#[derive(Debug)]
pub(crate) struct SourceFile {
    /// Relative to the root of the workspace, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl SourceFile {
    pub(crate) fn extension(&self) -> &str {
        self.name()
            .rsplit_once('.')
            .map_or("", |(_, extension)| extension)
    }

    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The name without its extension.
    pub(crate) fn stem(&self) -> &str {
        self.name()
            .rsplit_once('.')
            .map_or(self.name(), |(stem, _)| stem)
    }

    /// Whether it contains only tests.
    pub(crate) fn is_test(&self) -> bool {
        self.path.starts_with("tests/")
            || self.path.contains("/tests/")
            || self.path.ends_with("/tests.rs")
    }

    /// Returns its lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }
}

#[derive(Debug, Default)]
pub(crate) struct SourceTree {
    pub(crate) files: Vec<SourceFile>,
}

impl SourceTree {
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let mut tree = Self::default();
        tree.walk(root, "")
            .map_err(|error| format!("{}: {error}", root.display()))?;
        tree.files.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(tree)
    }

    pub(crate) fn get(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }

    pub(crate) fn with_extension(&self, extension: &str) -> impl Iterator<Item = &SourceFile> {
        self.files
            .iter()
            .filter(move |file| file.extension() == extension)
    }

    /// Returns the manifests of the workspace's packages, with their folders.
    pub(crate) fn manifests(&self) -> impl Iterator<Item = (&str, &SourceFile)> {
        self.files
            .iter()
            .filter_map(|file| Some((file.path.strip_suffix("/Cargo.toml")?, file)))
    }

    fn walk(&mut self, folder: &Path, prefix: &str) -> std::io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if NOT_OURS.contains(&name.as_str()) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                if !name.starts_with('.') || DOT_FOLDERS.contains(&name.as_str()) {
                    self.walk(&entry.path(), &format!("{path}/"))?;
                }
            } else if is_text(&name) {
                let text = String::from_utf8_lossy(&fs::read(entry.path())?).into_owned();
                self.files.push(SourceFile { path, text });
            }
        }
        Ok(())
    }
}

fn is_text(name: &str) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    TEXT_NAMES.contains(&name)
        || extension.is_some_and(|extension| TEXT_EXTENSIONS.contains(&extension))
}

#[cfg(test)]
impl SourceTree {
    /// Builds a tree for tests.
    pub(crate) fn from_files(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| SourceFile {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        Self {
            files: files.iter().map(file).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_projects_text_is_read() {
        let folder = tempfile::tempdir().unwrap();
        for path in [
            "src/main.rs",
            ".ci/run",
            ".git/note.md",
            "target/debug/x.rs",
            "logo.png",
            "Cargo.lock",
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "text").unwrap();
        }
        let tree = SourceTree::read(folder.path()).unwrap();
        let paths: Vec<_> = tree.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, [".ci/run", "src/main.rs"]);
    }

    #[test]
    fn a_file_knows_its_names() {
        let tree =
            SourceTree::from_files(&[("crates/core/tests/golden.rs", ""), ("lua/ack.lua", "")]);
        assert!(tree.files[0].is_test() && !tree.files[1].is_test());
        assert_eq!(
            (
                tree.files[1].name(),
                tree.files[1].stem(),
                tree.files[1].extension()
            ),
            ("ack.lua", "ack", "lua")
        );
    }
}
