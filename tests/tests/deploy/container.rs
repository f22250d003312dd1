//! `deploy/container/Dockerfile` and `.dockerignore`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use parse_dockerfile::{Command as ImageCommand, Dockerfile, Instruction, Source};
use tidegate_testkit::{DaemonProgram, run_until_exit_with};

use crate::files::{path, read};
use crate::settings::{in_effect, text};

const DOCKERFILE: &str = "deploy/container/Dockerfile";
/// The programs of the images, and the packages that build them.
const PROGRAMS: [&str; 4] = [
    "tidegate",
    "tidegate-api",
    "tidegate-pumpd",
    "tidegate-relayd",
];
const PACKAGES: [&str; 4] = [
    "tidegate-api",
    "tidegate-cli",
    "tidegate-pumpd",
    "tidegate-relayd",
];
/// What the image of the runtime has.
const LIBRARIES: [&str; 5] = [
    "libc.so",
    "libm.so",
    "libgcc_s.so",
    "ld-linux",
    "linux-vdso",
];

/// An image of a daemon, or of the command line.
pub(crate) struct ImageTarget {
    target: String,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) ports: BTreeSet<String>,
    entrypoint: Vec<String>,
    /// The copied files: where they are, and where they come from.
    copied: BTreeMap<String, String>,
    base: String,
}

impl ImageTarget {
    /// Its daemon.
    ///
    /// # Panics
    /// If it is not that of a daemon.
    pub(crate) fn program(&self) -> DaemonProgram {
        match self.target.as_str() {
            "api" => DaemonProgram::Api,
            "pumpd" => DaemonProgram::Pumpd,
            "relayd" => DaemonProgram::Relayd,
            other => panic!("no daemon is called {other}"),
        }
    }

    fn assert_runs(&self, name: &str) {
        assert_eq!(self.entrypoint, [format!("/usr/local/bin/{name}")]);
        let built = self.copied.get(&self.entrypoint[0]);
        assert_eq!(built, Some(&format!("/source/target/release/{name}")));
    }
}

/// Returns the image of a target.
///
/// # Panics
/// If there is none.
pub(crate) fn image(target: &str) -> ImageTarget {
    let source = read(DOCKERFILE);
    let dockerfile = parse_dockerfile::parse(&source).unwrap_or_else(|error| panic!("{error}"));
    read_target(&dockerfile, target)
}

fn read_target(file: &Dockerfile<'_>, target: &str) -> ImageTarget {
    let stage = file
        .stage(target)
        .unwrap_or_else(|| panic!("no stage {target}"));
    let mut image = ImageTarget {
        target: target.to_owned(),
        environment: Vec::new(),
        ports: BTreeSet::new(),
        entrypoint: Vec::new(),
        copied: BTreeMap::new(),
        base: stage.from.image.value.to_string(),
    };
    for instruction in stage.instructions {
        match instruction {
            Instruction::Env(env) => {
                let (name, value) = env.arguments.value.split_once('=').expect("NAME=VALUE");
                image.environment.push((name.to_owned(), value.to_owned()));
            }
            Instruction::Expose(expose) => {
                let ports = expose.arguments.iter().map(|port| port.value.to_string());
                image.ports.extend(ports);
            }
            Instruction::Copy(copy) => {
                assert_eq!(copy.options[0].value.as_ref().unwrap().value, "build");
                let Source::Path(from) = &copy.src[0] else {
                    panic!("a file is copied")
                };
                let to = copy.dest.value.to_string();
                image.copied.insert(to, from.value.to_string());
            }
            Instruction::Entrypoint(entrypoint) => {
                let ImageCommand::Exec(words) = &entrypoint.arguments else {
                    panic!("there is no shell in the image")
                };
                let words = words.value.iter().map(|word| word.value.to_string());
                image.entrypoint = words.collect();
            }
            other => panic!("{target}: {other:?}"),
        }
    }
    image
}

#[tokio::test]
async fn each_image_runs_its_daemon_on_the_ports_that_it_exposes() {
    for target in ["api", "pumpd", "relayd"] {
        let image = image(target);
        image.assert_runs(image.program().name());
        let account = ("TIDEGATE_ACCOUNTS__ADMIN".to_owned(), "secret".to_owned());
        let environment = image.environment.iter().cloned();
        let environment = environment.chain((target == "api").then_some(account));
        let settings = in_effect(image.program(), &[], &environment.collect::<Vec<_>>()).await;
        let keys: &[&str] = match target {
            "api" => &["listen", "admin_listen"],
            _ => &["admin_listen"],
        };
        let listens = keys.iter().map(|key| text(&settings, key));
        let ports = listens.map(|address| address.strip_prefix("0.0.0.0:").unwrap().to_owned());
        assert_eq!(ports.collect::<BTreeSet<_>>(), image.ports, "{target}");
    }
}

#[test]
fn the_image_of_the_command_line_needs_nothing_else() {
    let image = image("cli");
    image.assert_runs("tidegate");
    assert!(image.environment.is_empty() && image.ports.is_empty());
    assert_eq!(image.copied.len(), 1);
}

#[tokio::test]
async fn the_image_of_the_api_does_not_start_without_an_account() {
    let image = image("api");
    let variables = image.environment.iter();
    let variables: Vec<(&str, &str)> = variables
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let exit = run_until_exit_with(image.program(), &[], &variables, Duration::from_secs(30)).await;
    assert_eq!(exit.code, Some(1), "{}", exit.log);
    assert!(exit.log.contains("[accounts]"), "{}", exit.log);
}

#[test]
fn images_run_as_a_user_that_is_not_root() {
    let source = read(DOCKERFILE);
    let dockerfile = parse_dockerfile::parse(&source).unwrap();
    for target in ["api", "pumpd", "relayd", "cli"] {
        let base = dockerfile.stage(&image(target).base).unwrap();
        let user = base.instructions.iter().find_map(|one| match one {
            Instruction::User(user) => Some(user.arguments.value.to_string()),
            _ => None,
        });
        let user = user.unwrap();
        let id: u32 = user.split(':').next().unwrap().parse().unwrap();
        assert!(id > 0, "{target}");
    }
}

#[test]
fn programs_need_no_library_that_the_images_lack() {
    let api = DaemonProgram::Api.path();
    for name in PROGRAMS {
        let program = api.with_file_name(name);
        let output = Command::new("ldd").arg(program).output().unwrap();
        let listed = String::from_utf8(output.stdout).unwrap();
        assert!(listed.lines().count() > 1, "{listed}");
        let unknown = listed
            .lines()
            .find(|line| !LIBRARIES.iter().any(|library| line.contains(library)));
        assert_eq!(unknown, None, "{name}");
    }
}

/// The packages of the workspace that the Dockerfile builds exist, and only those that it copies.
#[test]
fn the_commands_build_what_is_copied() {
    let source = read(DOCKERFILE);
    let dockerfile = parse_dockerfile::parse(&source).unwrap();
    let build = dockerfile.stage("build").unwrap();
    let commands = build.instructions.iter().filter_map(|one| match one {
        Instruction::Run(run) => match &run.arguments {
            ImageCommand::Shell(command) => Some(command.value),
            other => panic!("{other:?}"),
        },
        _ => None,
    });
    let commands: Vec<&str> = commands.collect();
    assert_eq!(commands.len(), 2, "{commands:?}");
    for command in commands {
        let words: Vec<&str> = command.split_whitespace().collect();
        let packages = words.windows(2).filter(|pair| pair[0] == "--package");
        let packages: BTreeSet<&str> = packages.map(|pair| pair[1]).collect();
        assert_eq!(packages, PACKAGES.into(), "{command}");
        assert!(
            words.contains(&"--locked") && words.contains(&"--release"),
            "{command}"
        );
    }
}

#[test]
fn everything_that_is_compiled_is_in_the_build_context() {
    let kept = kept_in_the_context();
    for name in &kept {
        assert!(path(name).exists(), "{name} is in .dockerignore only");
    }
    let mut checked = 0;
    for file in rust_files(&path("crates")) {
        let source = std::fs::read_to_string(&file).unwrap();
        for included in included_files(&source) {
            let target = normal(&file.parent().unwrap().join(included));
            let name = target.strip_prefix(path("")).unwrap();
            let first = name.components().next().unwrap().as_os_str();
            let is_kept = kept.contains(first.to_str().unwrap());
            assert!(is_kept, "{} includes {}", file.display(), name.display());
            checked += 1;
        }
    }
    assert!(checked > 10, "{checked}");
}

/// The entries that `.dockerignore` makes exceptions of; everything else is left out.
fn kept_in_the_context() -> BTreeSet<String> {
    let text = read(".dockerignore");
    assert!(text.lines().any(|line| line == "*"), "{text}");
    let exceptions = text.lines().filter_map(|line| line.strip_prefix('!'));
    exceptions.map(str::to_owned).collect()
}

/// The paths in `include_str!("…")` and `include_bytes!("…")`.
fn included_files(source: &str) -> Vec<&str> {
    let calls = ["include_str!(\"", "include_bytes!(\""];
    let of = |call: &'static str| source.split(call).skip(1);
    let paths = calls.into_iter().flat_map(of);
    paths.filter_map(|rest| rest.split('"').next()).collect()
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => assert!(normal.pop()),
            other => normal.push(other),
        }
    }
    normal
}
