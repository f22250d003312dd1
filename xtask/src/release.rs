//! `cargo xtask release`: makes the archive, the packages for Debian, the SBOM and their checksums.

mod archive;
mod build;
mod checksums;
mod debian_control;
mod debian_package;
mod dependency_graph;
mod elf;
mod io;
mod layout;
mod notices;
mod release_file;
mod sbom;
mod source_state;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::workspace::Workspace;
use archive::ReleaseArchive;
use build::ReleasePrograms;
use debian_package::DebianBuilder;
use io::failed_at;
use release_file::ReleaseFile;
use source_state::SourceState;

/// The flags of `release`.
#[derive(Debug, clap::Args)]
pub(crate) struct ReleaseOptions {
    /// The folder for the files [default: target/packages]. It is created; files with the same names are replaced
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Build with the dev profile. To try the command: the programs are slow
    #[arg(long)]
    debug: bool,
    /// Build nothing, and take the programs from this folder
    #[arg(long, value_name = "DIR", conflicts_with = "debug")]
    binaries: Option<PathBuf>,
    /// The part of the Debian version that follows the dash: raise it to publish a package of the same version again
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    revision: u32,
    /// The maintainer of the Debian packages
    #[arg(long, value_name = "NAME <ADDRESS>", default_value = debian_control::MAINTAINER, value_parser = debian_control::maintainer)]
    maintainer: String,
    /// How much the archive and the packages are compressed by gzip: 0 is fast, 9 is small
    #[arg(long, value_name = "LEVEL", default_value_t = 9, value_parser = clap::value_parser!(u32).range(0..=9))]
    compression: u32,
    /// Make no Debian packages. For machines without dpkg-deb
    #[arg(long)]
    no_deb: bool,
    /// Fail unless all files are committed and CHANGELOG.md has a section for the version. Without this flag the
    /// command prints what is missing
    #[arg(long)]
    strict: bool,
}

impl ReleaseOptions {
    /// Fails if the command shall, and something is missing for a release.
    fn check(&self, state: &SourceState) -> Result<(), String> {
        if !self.strict || state.problems.is_empty() {
            return Ok(());
        }
        let problems = state.problems.join("\n  ");
        Err(format!("this is not ready to be released:\n  {problems}"))
    }
}

pub(crate) fn run(workspace: &Workspace, options: &ReleaseOptions) -> ExitCode {
    match make(workspace, options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn make(workspace: &Workspace, options: &ReleaseOptions) -> Result<(), String> {
    let mut state = SourceState::read(workspace)?;
    options.check(&state)?;
    // Before the build, which takes minutes.
    if !options.no_deb {
        debian_package::check_tools()?;
    }
    build::check_tools()?;

    let folder = programs_folder(workspace, options)?;
    println!("reading the programs in {}", workspace.display(&folder));
    let programs = ReleasePrograms::read(&folder)?;
    if options.binaries.is_none() {
        state.problems.extend(programs.with_paths_of(workspace));
        options.check(&state)?;
    }
    let graph = sbom::graph(workspace, &programs)?;
    let notices = ReleaseFile::readable(notices::NAME, notices::text(&graph)?.into_bytes());
    let out = options.out.clone();
    let out = out.unwrap_or_else(|| workspace.target().join("packages"));
    fs::create_dir_all(&out).map_err(failed_at(&out))?;

    let mut made = Vec::new();
    let mut add = |name: String| {
        println!("made {}", workspace.display(&out.join(&name)));
        made.push(name);
    };
    let archive = ReleaseArchive {
        name: format!(
            "tidegate-{}-linux-{}",
            state.version,
            programs.machine().name
        ),
        files: layout::archive(workspace, &programs, &notices)?,
        time: state.time,
        compression: options.compression,
    };
    add(archive.write(&out)?);
    if !options.no_deb {
        let builder = DebianBuilder {
            workspace,
            programs: &programs,
            notices: &notices,
            state: &state,
            revision: options.revision,
            maintainer: &options.maintainer,
            compression: options.compression,
        };
        for package in layout::PACKAGES {
            add(builder.write(&package, &out)?);
        }
    }
    add(sbom::write(workspace, &graph, &programs, &state, &out)?);
    checksums::write(&out, &made)?;
    println!("made {}", workspace.display(&out.join(checksums::NAME)));
    for problem in &state.problems {
        println!("note: not ready to be released: {problem}");
    }
    Ok(())
}

/// Builds the programs, unless a folder is given, and returns where they are.
fn programs_folder(workspace: &Workspace, options: &ReleaseOptions) -> Result<PathBuf, String> {
    match &options.binaries {
        Some(folder) => Ok(folder.clone()),
        None => build::build(workspace, options.debug),
    }
}
