//! Where things are, and how cargo is called.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The folders of this workspace.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    pub(crate) fn find() -> Result<Self, String> {
        let here = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = here
            .parent()
            .ok_or("the workspace has no folder")?
            .to_owned();
        let metadata = metadata(&root, &["--no-deps", "--offline"])?;
        let target = metadata["target_directory"]
            .as_str()
            .ok_or("cargo names no target folder")?;
        Ok(Self {
            target: PathBuf::from(target),
            root,
        })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of what is built, and of everything else that is not source.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// A path as a person at the top folder would write it.
    pub(crate) fn shown<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }

    pub(crate) fn cargo(&self) -> Command {
        cargo(&self.root)
    }

    /// Everything cargo knows about the workspace and its dependencies. Fetches what is not on this machine yet.
    pub(crate) fn dependencies(&self) -> Result<Value, String> {
        metadata(&self.root, &["--locked"])
    }
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

fn metadata(root: &Path, arguments: &[&str]) -> Result<Value, String> {
    let mut command = cargo(root);
    command
        .args(["metadata", "--format-version", "1", "--quiet"])
        .args(arguments);
    let output = command
        .output()
        .map_err(|error| format!("cargo cannot run: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}
