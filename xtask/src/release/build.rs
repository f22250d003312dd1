//! Builds the programs, and reads their properties for packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use super::elf::{MachineKind, ProgramNeeds};
use super::io::{failed_at, output};
use super::release_file::ReleaseFile;
use crate::workspace::Workspace;

/// The programs, and the packages of the workspace that build them.
pub(crate) const PROGRAMS: [(&str, &str); 4] = [
    ("tidegate", "tidegate-cli"),
    ("tidegate-api", "tidegate-api"),
    ("tidegate-pumpd", "tidegate-pumpd"),
    ("tidegate-relayd", "tidegate-relayd"),
];
/// The command line, which prints its manual pages and completions.
const COMMAND_LINE: &str = "tidegate";
/// Removes debug information.
const STRIP: &str = "strip";
/// Rust's flags for the compiler, with this character between them.
const RUST_FLAGS: &str = "CARGO_ENCODED_RUSTFLAGS";
const RUST_FLAGS_SEPARATOR: &str = "\u{1f}";
/// In the place of the folders of this machine, in messages of the programs.
const SOURCE_FOLDER: &str = "/tidegate";
const REGISTRY_FOLDER: &str = "/cargo";

/// A program without debug information.
#[derive(Debug)]
pub(crate) struct ReleaseProgram {
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    pub(crate) content: Rc<[u8]>,
    pub(crate) needs: ProgramNeeds,
}

/// The programs, and the documentation that one of them prints.
#[derive(Debug)]
pub(crate) struct ReleasePrograms {
    programs: Vec<ReleaseProgram>,
    /// The manual pages: file name, text.
    pub(crate) manual: Vec<(String, Vec<u8>)>,
    folder: PathBuf,
}

/// Fails if a program that is needed later is missing.
pub(crate) fn check_tools() -> Result<(), String> {
    let found = output(Command::new(STRIP).arg("--version"));
    found.map(drop).map_err(|error| {
        format!("{error}\ninstall {STRIP}: apt-get install binutils, or what your system calls it")
    })
}

/// Builds the programs and returns their folder. Other builds have other flags, and so another folder.
pub(crate) fn build(workspace: &Workspace, is_debug: bool) -> Result<PathBuf, String> {
    let packages = PROGRAMS.map(|(_, package)| package);
    println!("building {}", packages.join(", "));
    let target = workspace.target().join("release-build");
    let mut cargo = workspace.cargo();
    cargo
        .args(["build", "--locked", "--target-dir"])
        .arg(&target);
    for package in packages {
        cargo.args(["--package", package]);
    }
    if !is_debug {
        cargo.arg("--release");
    }
    let (rust, c) = path_flags(workspace);
    cargo.env(RUST_FLAGS, rust.join(RUST_FLAGS_SEPARATOR));
    cargo
        .env("CFLAGS", c.join(" "))
        .env("CARGO_INCREMENTAL", "0");
    match cargo.status() {
        Ok(status) if status.success() => Ok(target.join(profile_folder(is_debug))),
        Ok(_) => Err("the build failed; see above".to_owned()),
        Err(error) => Err(format!("failed to run cargo: {error}")),
    }
}

const fn profile_folder(is_debug: bool) -> &'static str {
    if is_debug { "debug" } else { "release" }
}

/// Flags of the Rust and C compilers that keep the paths of this machine out of the programs. Flags of the environment
/// are kept.
fn path_flags(workspace: &Workspace) -> (Vec<String>, Vec<String>) {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let encoded = variable(RUST_FLAGS);
    let given = encoded.split(RUST_FLAGS_SEPARATOR);
    let mut rust: Vec<String> = given.map(str::to_owned).collect();
    rust.extend(variable("RUSTFLAGS").split_whitespace().map(str::to_owned));
    rust.retain(|flag| !flag.is_empty());
    let mut c = vec![variable("CFLAGS")];
    c.retain(|flags| !flags.is_empty());
    for (folder, shown) in source_folders(workspace) {
        let folder = folder.display();
        rust.push(format!("--remap-path-prefix={folder}={shown}"));
        c.push(format!("-ffile-prefix-map={folder}={shown}"));
    }
    (rust, c)
}

/// The folders of this machine with sources, and the paths that programs show in their place.
fn source_folders(workspace: &Workspace) -> Vec<(PathBuf, &'static str)> {
    let registry = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let registry = registry.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let registry = registry.map(|folder| (folder, REGISTRY_FOLDER));
    let sources = (workspace.root().to_owned(), SOURCE_FOLDER);
    [sources].into_iter().chain(registry).collect()
}

impl ReleasePrograms {
    /// Reads the programs in a folder.
    ///
    /// # Errors
    /// One is missing or does not run here, or they are for different machines.
    pub(crate) fn read(folder: &Path) -> Result<Self, String> {
        let work = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut programs = Vec::new();
        for (name, package) in PROGRAMS {
            let path = folder.join(name);
            let content = stripped(&path, work.path())?;
            let needs = ProgramNeeds::read(&content);
            programs.push(ReleaseProgram {
                name,
                package,
                content: content.into(),
                needs: needs.map_err(|error| format!("{}: {error}", path.display()))?,
            });
        }
        let one = programs[0].needs.machine;
        if let Some(other) = programs.iter().find(|other| other.needs.machine != one) {
            let machine = other.needs.machine.name;
            return Err(format!(
                "{} is for {machine}, others for {}",
                other.name, one.name
            ));
        }
        Ok(Self {
            programs,
            manual: manual(&folder.join(COMMAND_LINE), work.path())?,
            folder: folder.to_owned(),
        })
    }

    pub(crate) fn machine(&self) -> MachineKind {
        self.programs[0].needs.machine
    }

    pub(crate) fn all(&self) -> &[ReleaseProgram] {
        &self.programs
    }

    pub(crate) fn named(&self, name: &str) -> Result<&ReleaseProgram, String> {
        let found = self.programs.iter().find(|program| program.name == name);
        found.ok_or_else(|| format!("no program is called {name}"))
    }

    /// Returns the programs that contain a path of this machine: a build on another machine has other bytes.
    pub(crate) fn with_paths_of(&self, workspace: &Workspace) -> Vec<String> {
        let mut found = Vec::new();
        for (folder, _) in source_folders(workspace) {
            let path = folder.as_os_str().as_encoded_bytes();
            let has_path = |program: &&ReleaseProgram| {
                let mut parts = program.content.windows(path.len());
                parts.any(|part| part == path)
            };
            let programs = self.programs.iter().filter(has_path);
            let shown = folder.display();
            found.extend(programs.map(|one| format!("{} contains the path {shown}", one.name)));
        }
        found
    }

    /// The completions of the command line for a shell.
    pub(crate) fn completions(&self, shell: &str) -> Result<Vec<u8>, String> {
        output(Command::new(self.folder.join(COMMAND_LINE)).args(["completions", shell]))
    }
}

impl ReleaseProgram {
    pub(crate) fn file(&self, folder: &str) -> ReleaseFile {
        ReleaseFile::new(
            format!("{folder}/{}", self.name),
            0o755,
            Rc::clone(&self.content),
        )
    }
}

/// Returns a program without its debug information. The names of functions stay, for backtraces.
fn stripped(program: &Path, work: &Path) -> Result<Vec<u8>, String> {
    if !program.is_file() {
        let path = program.display();
        return Err(format!(
            "{path} is missing; build it, or leave out --binaries"
        ));
    }
    let to = work.join("stripped");
    let mut strip = Command::new(STRIP);
    output(strip.args(["--strip-debug", "-o"]).arg(&to).arg(program))?;
    fs::read(&to).map_err(failed_at(&to))
}

/// Has the command line write its manual pages, and returns them, sorted by name.
fn manual(command_line: &Path, work: &Path) -> Result<Vec<(String, Vec<u8>)>, String> {
    let folder = work.join("manual");
    output(Command::new(command_line).arg("man").arg(&folder))?;
    let mut pages = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failed_at(&folder))? {
        let path = entry.map_err(failed_at(&folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let text = fs::read(&path).map_err(failed_at(&path))?;
        pages.push((name.into_owned(), text));
    }
    pages.sort();
    Ok(pages)
}
