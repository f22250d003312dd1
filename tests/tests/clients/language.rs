//! How the program of each client is built and started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tidegate_local_program::{command, workspace_cache};

/// Installing packages may take long where none is in a cache.
const BUILD_LIMIT: Duration = Duration::from_secs(600);

/// A language with a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Go,
    Java,
    Php,
    Python,
    TypeScript,
}

/// The program of a client, built.
#[derive(Debug)]
pub(crate) struct DriverProgram {
    program: PathBuf,
    arguments: Vec<String>,
}

impl DriverProgram {
    fn new(program: impl Into<PathBuf>, arguments: &[&str]) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.iter().map(|it| (*it).to_owned()).collect(),
        }
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        command
    }
}

impl Language {
    /// The folder of the client below `clients`.
    const fn folder(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Java => "java",
            Self::Php => "php",
            Self::Python => "python",
            Self::TypeScript => "typescript",
        }
    }

    /// Builds the program of the client in a copy of its folder below `target`, with the packages that it needs. Blocks.
    pub(crate) fn prepare(self) -> DriverProgram {
        let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients");
        let source = clients.join(self.folder()).canonicalize().unwrap();
        let copy = workspace_cache("clients").join(self.folder());
        copy_sources(&source, &copy);
        match self {
            Self::Go => go(&copy),
            Self::Java => java(&copy),
            Self::Php => DriverProgram::new("php", &[&text(&copy.join("driver/driver.php"))]),
            Self::Python => python(&copy),
            Self::TypeScript => typescript(&copy),
        }
    }
}

/// Copies what is committed or new, over an earlier copy: its packages and built files stay.
fn copy_sources(source: &Path, copy: &Path) {
    let mut list = Command::new("git");
    list.args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    let files = command::run(list.current_dir(source), BUILD_LIMIT).unwrap();
    for file in files.split('\0').filter(|file| !file.is_empty()) {
        let (from, to) = (source.join(file), copy.join(file));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        let bytes = fs::read(from).unwrap();
        // A file with a new time would be built again.
        if fs::read(&to).ok().as_ref() != Some(&bytes) {
            fs::write(to, bytes).unwrap();
        }
    }
}

/// Runs a step; if it fails the test fails with its output.
fn step(program: &str, arguments: &[&str], folder: &Path, package: &str) {
    let mut step = Command::new(program);
    step.args(arguments).current_dir(folder);
    let done = command::run(&mut step, BUILD_LIMIT);
    done.unwrap_or_else(|error| panic!("{error}\nit needs {program}: {package}"));
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn go(folder: &Path) -> DriverProgram {
    let program = folder.join("conformance-driver");
    let arguments = ["build", "-o", &text(&program), "./driver"];
    step("go", &arguments, folder, "Debian: apt-get install golang");
    DriverProgram::new(program, &[])
}

fn java(folder: &Path) -> DriverProgram {
    let arguments = ["-q", "-B", "package", "-DskipTests", "-pl", "client,driver"];
    step(
        "mvn",
        &arguments,
        folder,
        "Debian: apt-get install maven default-jdk-headless",
    );
    let built = folder.join("driver/target");
    let classes = format!(
        "{}:{}",
        text(&built.join("driver.jar")),
        text(&built.join("lib/*"))
    );
    DriverProgram::new(
        "java",
        &[
            "-XX:TieredStopAtLevel=1",
            "-cp",
            &classes,
            "io.tidegate.driver.Driver",
        ],
    )
}

fn python(folder: &Path) -> DriverProgram {
    let environment = folder.join("environment");
    let needs = "Debian: apt-get install python3-venv";
    if !environment.exists() {
        step(
            "python3",
            &["-m", "venv", &text(&environment)],
            folder,
            needs,
        );
    }
    let python = environment.join("bin/python");
    // The package as users install it.
    let arguments = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--force-reinstall",
        "--no-deps",
        ".",
    ];
    step(
        &text(&python),
        &[
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "httpx",
        ],
        folder,
        needs,
    );
    step(&text(&python), &arguments, folder, needs);
    DriverProgram::new(python, &[&text(&folder.join("driver.py"))])
}

fn typescript(folder: &Path) -> DriverProgram {
    let needs = "Debian: apt-get install nodejs npm";
    if !folder.join("node_modules").exists() {
        step(
            "npm",
            &["ci", "--silent", "--no-audit", "--no-fund"],
            folder,
            needs,
        );
    }
    step("npm", &["run", "--silent", "build:driver"], folder, needs);
    DriverProgram::new("node", &[&text(&folder.join("dist-driver/driver.js"))])
}
