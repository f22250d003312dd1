//! Builds a Debian package with `dpkg-deb`.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use super::build::ReleasePrograms;
use super::debian_control::{ControlFields, copyright, debian_changelog, debian_version};
use super::io::{failed_at, output};
use super::layout::{self, PackageKind};
use super::release_file::ReleaseFile;
use super::source_state::SourceState;
use crate::workspace::Workspace;

const DPKG_DEB: &str = "dpkg-deb";
/// The folder of files about the package.
const CONTROL: &str = "DEBIAN";
/// The scripts that dpkg runs, in `deploy/debian`.
const SCRIPTS: [&str; 3] = ["postinst", "postrm", "prerm"];
const FOLDER_MODE: u32 = 0o755;

/// Fails if `dpkg-deb` is missing.
pub(crate) fn check_tools() -> Result<(), String> {
    let found = output(Command::new(DPKG_DEB).arg("--version"));
    found.map(drop).map_err(|error| {
        format!("{error}\ninstall it: apt-get install dpkg; or leave out the packages: --no-deb")
    })
}

#[derive(Debug)]
pub(crate) struct DebianBuilder<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) programs: &'a ReleasePrograms,
    /// The licences of the crates in the programs.
    pub(crate) notices: &'a ReleaseFile,
    pub(crate) state: &'a SourceState,
    pub(crate) revision: u32,
    pub(crate) maintainer: &'a str,
    pub(crate) compression: u32,
}

impl DebianBuilder<'_> {
    /// Builds a package into a folder, and returns the name of its file.
    pub(crate) fn write(&self, kind: &PackageKind, folder: &Path) -> Result<String, String> {
        let version = debian_version(&self.state.version, self.revision);
        let program = self.programs.named(kind.program)?;
        let mut files = layout::package(self.workspace, self.programs, kind)?;
        files.extend(self.documents(kind, &version)?);
        let sizes = files.iter().map(|file| file.content.len() as u64);
        let fields = ControlFields {
            kind,
            version: &version,
            maintainer: self.maintainer,
            needs: &program.needs,
            installed_bytes: sizes.sum(),
        };
        let control = |name: &str| format!("{CONTROL}/{name}");
        files.push(ReleaseFile::readable(
            control("control"),
            fields.control()?.into_bytes(),
        ));
        if let Some(settings) = kind.settings {
            let kept = [
                layout::settings_path(settings),
                layout::rotation_path(kind.name),
            ];
            let kept = kept.map(|path| format!("/{path}\n")).concat();
            files.push(ReleaseFile::readable(
                control("conffiles"),
                kept.into_bytes(),
            ));
            for script in SCRIPTS {
                let text = self.script(script, kind.name, settings)?;
                files.push(ReleaseFile::new(control(script), 0o755, text.into_bytes()));
            }
        }
        let name = format!(
            "{}_{version}_{}.deb",
            kind.name, program.needs.machine.debian
        );
        self.pack(&files, &folder.join(&name))?;
        Ok(name)
    }

    /// The files that Debian wants about each package.
    fn documents(&self, kind: &PackageKind, version: &str) -> Result<Vec<ReleaseFile>, String> {
        let (root, name) = (self.workspace.root(), kind.name);
        let to = |file: &str| format!("usr/share/doc/{name}/{file}");
        let history = debian_changelog(name, version, self.maintainer, self.state.timestamp());
        let mit = root.join("LICENSE-MIT");
        let mit = fs::read_to_string(&mit).map_err(failed_at(&mit))?;
        let notices = Rc::clone(&self.notices.content);
        Ok(vec![
            ReleaseFile::readable(to(&self.notices.path), notices).gzipped()?,
            ReleaseFile::readable(to("changelog.Debian"), history.into_bytes()).gzipped()?,
            ReleaseFile::copy(root, "CHANGELOG.md", to("changelog"))?.gzipped()?,
            ReleaseFile::readable(to("copyright"), copyright(&mit).into_bytes()),
        ])
    }

    /// A script for dpkg.
    fn script(&self, script: &str, package: &str, settings: &str) -> Result<String, String> {
        let path = self.workspace.root().join("deploy/debian").join(script);
        let text = fs::read_to_string(&path).map_err(failed_at(&path))?;
        Ok(text
            .replace("@PACKAGE@", package)
            .replace("@SETTINGS@", settings))
    }

    /// Writes the files into a temporary folder and packs it. All files have the time of the source, and root as owner.
    fn pack(&self, files: &[ReleaseFile], package: &Path) -> Result<(), String> {
        let work = tempfile::tempdir().map_err(|error| error.to_string())?;
        let tree = work.path().join("tree");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(self.state.time);
        write_tree(&tree, files, time).map_err(failed_at(&tree))?;
        let mut pack = Command::new(DPKG_DEB);
        pack.env("SOURCE_DATE_EPOCH", self.state.time.to_string())
            .args([
                "--root-owner-group",
                "-Zgzip",
                &format!("-z{}", self.compression),
            ])
            .arg("--build")
            .args([&tree, package]);
        output(&mut pack).map(drop)
    }
}

fn write_tree(tree: &Path, files: &[ReleaseFile], time: SystemTime) -> io::Result<()> {
    for file in files {
        let path = tree.join(&file.path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&path, &file.content)?;
        fs::set_permissions(&path, Permissions::from_mode(file.mode))?;
        File::options()
            .append(true)
            .open(&path)?
            .set_modified(time)?;
    }
    let mut folders = Vec::new();
    list_folders(tree, &mut folders)?;
    for folder in folders {
        fs::set_permissions(&folder, Permissions::from_mode(FOLDER_MODE))?;
        File::open(&folder)?.set_modified(time)?;
    }
    Ok(())
}

fn list_folders(folder: &Path, all: &mut Vec<PathBuf>) -> io::Result<()> {
    all.push(folder.to_owned());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list_folders(&path, all)?;
        }
    }
    Ok(())
}
