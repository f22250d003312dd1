//! Which files the archive and each package have.

use std::fs;

use super::build::ReleasePrograms;
use super::io::failed_at;
use super::release_file::ReleaseFile;
use crate::workspace::Workspace;

/// Shells, and where Debian's packages have completions for them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/tidegate"),
    ("fish", "usr/share/fish/vendor_completions.d/tidegate.fish"),
    ("zsh", "usr/share/zsh/vendor-completions/_tidegate"),
];
/// Files of the repository that the archive has under the same path, and folders.
const IN_ARCHIVE: [&str; 10] = [
    "CHANGELOG.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "config",
    "deploy/grafana",
    "deploy/logrotate",
    "deploy/prometheus",
    "deploy/redis",
    "deploy/systemd",
];
/// Lines of a unit in `deploy/systemd`, and their replacements in a package: programs of packages are in /usr/bin, and
/// a user with a name can read settings that others cannot.
const UNIT_CHANGES: [(&str, &str); 2] = [
    ("\nExecStart=/usr/local/bin/", "\nExecStart=/usr/bin/"),
    ("\nDynamicUser=yes\n", "\nUser=tidegate\nGroup=tidegate\n"),
];

#[derive(Debug, Clone, Copy)]
pub(crate) struct PackageKind {
    pub(crate) name: &'static str,
    pub(crate) program: &'static str,
    /// The name of its settings in `config`, without `.toml`. `None` for the command line, which has none.
    pub(crate) settings: Option<&'static str>,
    /// One line.
    pub(crate) summary: &'static str,
    pub(crate) description: &'static str,
    /// Other packages that are useful with it, for the control file.
    pub(crate) suggests: &'static str,
}

pub(crate) const PACKAGES: [PackageKind; 4] = [
    PackageKind {
        name: "tidegate-api",
        program: "tidegate-api",
        settings: Some("api"),
        summary: "delay queue over Redis: the HTTP API",
        description: "Tidegate stores jobs in Redis and delivers them at their time. This package has\n\
                      the daemon with which clients publish, consume and manage jobs over HTTP.\n\
                      Jobs with a delay also need tidegate-pumpd, on this or another machine.",
        suggests: "redis-server (>= 5:7.0), tidegate-cli, tidegate-pumpd",
    },
    PackageKind {
        name: "tidegate-cli",
        program: "tidegate",
        settings: None,
        summary: "delay queue over Redis: the command line",
        description: "Tidegate stores jobs in Redis and delivers them at their time. This package has\n\
                      the command tidegate, which publishes jobs, looks at jobs and queues, and runs\n\
                      programs for jobs. It is a client of tidegate-api.",
        suggests: "tidegate-api",
    },
    PackageKind {
        name: "tidegate-pumpd",
        program: "tidegate-pumpd",
        settings: Some("pumpd"),
        summary: "delay queue over Redis: the timers",
        description: "Tidegate stores jobs in Redis and delivers them at their time. This package has\n\
                      the daemon that makes jobs ready when they are due, and the command that\n\
                      audits what is stored. Run two or more of it, on different machines.",
        suggests: "redis-server (>= 5:7.0), tidegate-api",
    },
    PackageKind {
        name: "tidegate-relayd",
        program: "tidegate-relayd",
        settings: Some("relayd"),
        summary: "delay queue over Redis: relays to webhooks and brokers",
        description: "Tidegate stores jobs in Redis and delivers them at their time. This package has\n\
                      the daemon that passes jobs on to webhooks, NATS, RabbitMQ and other queues. It\n\
                      is a client of tidegate-api.",
        suggests: "tidegate-api",
    },
];

pub(crate) fn archive(
    workspace: &Workspace,
    programs: &ReleasePrograms,
    notices: &ReleaseFile,
) -> Result<Vec<ReleaseFile>, String> {
    let mut files = vec![notices.clone()];
    for path in IN_ARCHIVE {
        copy(workspace, path, path, &mut files)?;
    }
    files.extend(programs.all().iter().map(|program| program.file("bin")));
    for (name, text) in &programs.manual {
        files.push(ReleaseFile::readable(
            format!("man/man1/{name}"),
            text.clone(),
        ));
    }
    for (shell, path) in COMPLETIONS {
        let name = path.rsplit('/').next().unwrap_or(path);
        let path = format!("completions/{shell}/{name}");
        files.push(ReleaseFile::readable(path, programs.completions(shell)?));
    }
    Ok(files)
}

/// The files of a package, besides files about the package.
pub(crate) fn package(
    workspace: &Workspace,
    programs: &ReleasePrograms,
    kind: &PackageKind,
) -> Result<Vec<ReleaseFile>, String> {
    let mut files = vec![programs.named(kind.program)?.file("usr/bin")];
    match kind.settings {
        Some(settings) => add_daemon(workspace, kind, settings, &mut files)?,
        None => {
            for (name, text) in &programs.manual {
                let path = format!("usr/share/man/man1/{name}");
                files.push(ReleaseFile::readable(path, text.clone()).gzipped()?);
            }
            for (shell, path) in COMPLETIONS {
                files.push(ReleaseFile::readable(path, programs.completions(shell)?));
            }
        }
    }
    Ok(files)
}

fn add_daemon(
    workspace: &Workspace,
    kind: &PackageKind,
    settings: &str,
    files: &mut Vec<ReleaseFile>,
) -> Result<(), String> {
    let (root, name) = (workspace.root(), kind.name);
    let file = format!("{settings}.toml");
    let mut copied = ReleaseFile::copy(root, &format!("config/{file}"), settings_path(settings))?;
    // Passwords may be in it. The script postinst gives it to the group of the daemon.
    copied.mode = 0o640;
    files.push(copied);
    let rotation = format!("deploy/logrotate/{name}.conf");
    files.push(ReleaseFile::copy(root, &rotation, rotation_path(name))?);
    let path = root.join(format!("deploy/systemd/{name}.service"));
    let text = fs::read_to_string(&path).map_err(failed_at(&path))?;
    let text = packaged_unit(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let unit = format!("usr/lib/systemd/system/{name}.service");
    files.push(ReleaseFile::readable(unit, text.into_bytes()));
    if kind.name == "tidegate-relayd" {
        return Ok(());
    }
    // Both daemons connect to Redis, and may be on different machines.
    let examples = format!("usr/share/doc/{name}/examples");
    copy(
        workspace,
        "deploy/redis",
        &format!("{examples}/redis"),
        files,
    )
}

pub(crate) fn settings_path(settings: &str) -> String {
    format!("etc/tidegate/{settings}.toml")
}

pub(crate) fn rotation_path(package: &str) -> String {
    format!("etc/logrotate.d/{package}")
}

fn packaged_unit(unit: &str) -> Result<String, String> {
    UNIT_CHANGES
        .iter()
        .try_fold(unit.to_owned(), |text, (from, to)| {
            match text.matches(from).count() {
                1 => Ok(text.replace(from, to)),
                _ => Err(format!("it must have the line {:?} once", from.trim())),
            }
        })
}

/// Adds a file of the repository, or all files of a folder and of its subfolders.
fn copy(
    workspace: &Workspace,
    from: &str,
    to: &str,
    files: &mut Vec<ReleaseFile>,
) -> Result<(), String> {
    let path = workspace.root().join(from);
    if !path.is_dir() {
        files.push(ReleaseFile::copy(workspace.root(), from, to)?);
        return Ok(());
    }
    for entry in fs::read_dir(&path).map_err(failed_at(&path))? {
        let name = entry.map_err(failed_at(&path))?.file_name();
        let name = name.to_string_lossy();
        copy(
            workspace,
            &format!("{from}/{name}"),
            &format!("{to}/{name}"),
            files,
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_packages_run_the_program_of_the_package_as_its_user() {
        let unit =
            "[Service]\nExecStart=/usr/local/bin/one --config x\nDynamicUser=yes\nUMask=0077\n";
        let packaged = packaged_unit(unit).unwrap();
        let expected = "[Service]\nExecStart=/usr/bin/one --config x\nUser=tidegate\nGroup=tidegate\nUMask=0077\n";
        assert_eq!(packaged, expected);
    }

    #[test]
    fn a_unit_without_a_line_that_changes_is_refused() {
        let error = packaged_unit("[Service]\nExecStart=/usr/local/bin/one\n").unwrap_err();
        assert!(error.contains("DynamicUser=yes"), "{error}");
    }
}
