//! Folders of the workspace, and calls of cargo.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

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
            .ok_or("the workspace has no root folder")?
            .to_owned();
        let metadata = metadata(&root, &["--no-deps", "--offline"])?;
        let target = metadata["target_directory"]
            .as_str()
            .ok_or("cargo metadata has no target folder")?;
        Ok(Self {
            target: PathBuf::from(target),
            root,
        })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The target folder: build results and everything else that is not source.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Displays a path relative to the root of the workspace.
    pub(crate) fn display<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }

    pub(crate) fn cargo(&self) -> Command {
        cargo(&self.root)
    }

    /// A cargo that leaves the processors to all others.
    pub(crate) fn cargo_with_lowest_priority(&self) -> Command {
        let mut nice = Command::new("nice");
        nice.args(["-n", "19"]).arg(cargo_program());
        in_folder(nice, &self.root)
    }

    /// Returns the names of all targets of integration tests, sorted, each once.
    pub(crate) fn test_targets(&self) -> Result<Vec<String>, String> {
        let metadata = metadata(&self.root, &["--no-deps", "--offline"])?;
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let targets =
            packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
        let tests = targets.filter(|target| target["kind"][0] == "test");
        let names = tests.filter_map(|target| target["name"].as_str());
        let names: BTreeSet<String> = names.map(str::to_owned).collect();
        Ok(names.into_iter().collect())
    }

    /// Returns `cargo metadata` of the workspace and its dependencies. Downloads missing dependencies.
    pub(crate) fn dependencies(&self) -> Result<Value, String> {
        metadata(&self.root, &["--locked"])
    }

    /// Like [`Self::dependencies`], without dependencies of other targets.
    pub(crate) fn dependencies_for(&self, target: &str) -> Result<Value, String> {
        metadata(&self.root, &["--locked", "--filter-platform", target])
    }
}

/// A cargo that runs in this folder.
pub(crate) fn cargo(folder: &Path) -> Command {
    in_folder(Command::new(cargo_program()), folder)
}

/// Without the variables that `cargo run` sets for this program. The build script of `ring` depends on them: with them,
/// `ring` and all packages above it would be compiled again whenever a call of cargo by hand follows one from here.
fn in_folder(mut cargo: Command, folder: &Path) -> Command {
    cargo.current_dir(folder);
    for (name, _) in std::env::vars_os() {
        let name_text = name.to_string_lossy();
        if name_text.starts_with("CARGO_MANIFEST_") || name_text.starts_with("CARGO_PKG_") {
            cargo.env_remove(&name);
        }
    }
    cargo
}

fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn metadata(root: &Path, arguments: &[&str]) -> Result<Value, String> {
    let mut command = cargo(root);
    command
        .args(["metadata", "--format-version", "1", "--quiet"])
        .args(arguments);
    let output = command
        .output()
        .map_err(|error| format!("failed to run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_is_called_without_the_variables_of_this_package() {
        let call = cargo(Path::new("."));
        let removed = call.get_envs().filter(|(_, value)| value.is_none());
        let removed: Vec<_> = removed.map(|(name, _)| name).collect();
        for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME"] {
            assert!(removed.iter().any(|it| *it == name), "{name}: {removed:?}");
        }
    }
}
