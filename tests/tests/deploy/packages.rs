//! What `cargo xtask release` makes, of the programs of this build: the same bytes twice, and packages that are
//! installed, run, upgraded, removed and purged in a copy of this machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_local_program::{ProgramProcess, command, log_tail};
use tidegate_testkit::{
    DaemonProgram, RawHttp, RedisServer, eventually, free_port, print_figure, start_redis,
};

use crate::debian_machine::{DebianMachine, PACKAGES};
use crate::files::read;

const LIMIT: Duration = Duration::from_secs(60);
const DAEMONS: [(&str, &str); 3] = [
    ("tidegate-api", "api"),
    ("tidegate-pumpd", "pumpd"),
    ("tidegate-relayd", "relayd"),
];
const ALL: [&str; 4] = [
    "tidegate-api",
    "tidegate-cli",
    "tidegate-pumpd",
    "tidegate-relayd",
];
/// The time of all files.
const TIME: &str = "1700000000";
/// What the settings of the next version have besides.
const NEW_LINE: &str = "# A line of the next version.\n";

/// Runs `cargo xtask release` with the programs of this build, in another environment each time.
fn release(out: &Path, umask: &str, zone: &str) {
    let programs = DaemonProgram::Api.path();
    let folder = programs.parent().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask $0; exec \"$@\"", umask]);
    shell
        .arg(folder.join("xtask"))
        .arg("release")
        .arg("--binaries")
        .arg(folder);
    shell.args(["--compression", "0", "--out"]).arg(out);
    shell.env("SOURCE_DATE_EPOCH", TIME).env("TZ", zone);
    command::run(&mut shell, LIMIT).unwrap_or_else(|error| panic!("{error}"));
}

/// Whether packages cannot be made and installed here. Says why, and fails in CI.
fn is_left_out() -> bool {
    let Some(missing) = DebianMachine::missing() else {
        return false;
    };
    assert!(std::env::var_os("CI").is_none(), "{missing}");
    print_figure(&format!("left out: {missing}"));
    true
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[tokio::test]
async fn packages_are_the_same_twice_and_run_on_a_debian_machine() {
    if is_left_out() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [made, again, next] = ["made", "again", "next"].map(|name| folder.path().join(name));
    release(&made, "022", "UTC");
    release(&again, "077", "Asia/Tokyo");
    let sums = |folder: &Path| fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    assert_eq!(sums(&made), sums(&again));
    fs::remove_dir_all(&again).unwrap();
    check_files(&made);

    make_next_version(&made, &next);
    let redis = tokio::task::spawn_blocking(start_redis).await.unwrap();
    let machine = DebianMachine::start(folder.path());
    install(&machine, "made", "0.1.0-1");
    check_installed(&machine);
    let ports = configure(&machine, &redis);
    let deployment = InstalledDeployment::start(&machine, &ports).await;
    deployment.serve_job(&machine, "first").await;

    install(&machine, "next", "0.2.0-1");
    check_settings_after_upgrade(&machine, &ports);
    check_rights_of_settings(&machine);
    // Without systemd no daemon was restarted: those of before still serve.
    deployment.serve_job(&machine, "second").await;
    deployment.stop();
    let deployment = InstalledDeployment::start(&machine, &ports).await;
    deployment.serve_job(&machine, "third").await;
    deployment.stop();

    remove_and_purge(&machine);
}

/// The checksums are right, the archive is complete, and the SBOM describes the programs in it.
fn check_files(made: &Path) {
    let mut check = Command::new("sha256sum");
    check
        .current_dir(made)
        .args(["--check", "--strict", "--quiet", "SHA256SUMS"]);
    command::run(&mut check, LIMIT).unwrap();
    let sums = fs::read_to_string(made.join("SHA256SUMS")).unwrap();
    let listed = sums
        .lines()
        .map(|line| line.split_once("  ").unwrap().1.to_owned());
    let files: BTreeSet<String> = listed.chain(["SHA256SUMS".to_owned()]).collect();
    assert_eq!(files, names(made));
    let file = |end: &str| files.iter().find(|name| name.ends_with(end)).unwrap();

    let archive = file(".tar.gz");
    let mut unpack = Command::new("tar");
    unpack
        .args(["--extract", "--file", archive])
        .current_dir(made);
    command::run(&mut unpack, LIMIT).unwrap();
    let root = made.join(archive.strip_suffix(".tar.gz").unwrap());
    for path in [
        "LICENSE-MIT",
        "config/api.toml",
        "man/man1/tidegate.1",
        "completions/zsh/_tidegate",
    ] {
        assert!(root.join(path).is_file(), "{path}");
    }
    let licences = fs::read_to_string(root.join("THIRD-PARTY-LICENSES")).unwrap();
    assert!(
        licences.contains("Copyright (c) Tokio Contributors"),
        "tokio has this line"
    );
    let sbom: Value =
        serde_json::from_slice(&fs::read(made.join(file(".cdx.json"))).unwrap()).unwrap();
    let components = sbom["components"].as_array().unwrap();
    let component = |name: &str| components.iter().find(|one| one["name"] == name).unwrap();
    for name in [
        "tidegate",
        "tidegate-api",
        "tidegate-pumpd",
        "tidegate-relayd",
    ] {
        let mut sum = Command::new("sha256sum");
        let sum = command::run(sum.arg(root.join("bin").join(name)), LIMIT).unwrap();
        let hash = component(name)["hashes"][0]["content"].as_str().unwrap();
        assert!(sum.starts_with(hash), "{name}: {hash}, {sum}");
    }
    assert_eq!(component("tokio")["licenses"][0]["expression"], "MIT");
    assert_eq!(component("serde_derive")["scope"], "excluded");
    // The suites use it; no program does.
    assert!(components.iter().all(|one| one["name"] != "proptest"));
    fs::remove_dir_all(root).unwrap();
}

/// Makes the packages of a version that does not exist: the same programs, with other settings.
fn make_next_version(made: &Path, next: &Path) {
    fs::create_dir(next).unwrap();
    let run = |command: &mut Command| command::run(command, LIMIT).unwrap();
    for package in names(made)
        .into_iter()
        .filter(|name| name.ends_with(".deb"))
    {
        let tree = next.join("tree");
        run(Command::new("dpkg-deb")
            .arg("--raw-extract")
            .arg(made.join(&package))
            .arg(&tree));
        let control = tree.join("DEBIAN/control");
        let text = fs::read_to_string(&control).unwrap();
        assert!(text.contains("\nVersion: 0.1.0-1\n"), "{text}");
        fs::write(&control, text.replace("0.1.0-1", "0.2.0-1")).unwrap();
        let settings = tree.join("etc/tidegate");
        if settings.is_dir() {
            let file = settings.join(names(&settings).pop_first().unwrap());
            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, text + NEW_LINE).unwrap();
        }
        let mut pack = Command::new("dpkg-deb");
        pack.args(["--root-owner-group", "-Znone", "--build"]);
        run(pack.arg(&tree).arg(next.join(&package)));
        fs::remove_dir_all(&tree).unwrap();
    }
}

/// Installs all packages of a folder, or upgrades to them. Settings that were changed are kept.
fn install(machine: &DebianMachine, folder: &str, version: &str) {
    let command = format!("dpkg --install --force-confold {PACKAGES}/{folder}/*.deb");
    machine.run(&["sh", "-c", &command]);
    let format = "--showformat=${Package} ${db:Status-Status} ${Version}\\n";
    let installed = machine.run(&[&["dpkg-query", "--show", format], &ALL[..]].concat());
    let expected = ALL.map(|package| format!("{package} installed {version}\n"));
    assert_eq!(installed, expected.concat());
    assert_eq!(machine.run(&["dpkg", "--audit"]), "");
}

fn check_installed(machine: &DebianMachine) {
    for package in ALL {
        assert_eq!(machine.run(&["dpkg", "--verify", package]), "");
    }
    let user = machine.run(&["getent", "passwd", "tidegate"]);
    let fields: Vec<&str> = user.trim().split(':').collect();
    let id: u32 = fields[2].parse().unwrap();
    assert!((1..1000).contains(&id), "{user}");
    assert_eq!(fields[5..], ["/nonexistent", "/usr/sbin/nologin"]);
    for (_, settings) in DAEMONS {
        let rights = machine.rights(&settings_path(settings));
        assert_eq!(rights, "root tidegate 640", "{settings}");
    }
    let version = machine.run(&["tidegate", "--version"]);
    assert!(version.starts_with("tidegate 0."), "{version}");
    assert!(machine.exists("/usr/share/man/man1/tidegate-publish.1.gz"));
    let completes = "source /usr/share/bash-completion/completions/tidegate; complete -p tidegate";
    machine.run(&["bash", "-c", completes]);
    if machine.try_run(&["which", "systemd-analyze"]).is_err() {
        print_figure(
            "left out: the units are not checked, since this machine has no systemd-analyze",
        );
        return;
    }
    for (package, _) in DAEMONS {
        let unit = format!("/usr/lib/systemd/system/{package}.service");
        let message = machine.run(&["sh", "-c", &format!("systemd-analyze verify {unit} 2>&1")]);
        assert_eq!(message, "", "{unit}");
    }
}

fn settings_path(settings: &str) -> String {
    format!("/etc/tidegate/{settings}.toml")
}

/// The ports of a deployment.
struct InstalledPorts {
    listen: u16,
    admin: u16,
    pump: u16,
}

/// Changes the installed settings, as an administrator does.
fn configure(machine: &DebianMachine, redis: &RedisServer) -> InstalledPorts {
    let [listen, admin, pump] = [(); 3].map(|()| free_port().unwrap());
    let address = |old: u16, new: u16| {
        let from = [
            "\"127.0.0.1:7777\"",
            "\"127.0.0.1:7778\"",
            "\"127.0.0.1:7779\"",
        ];
        (
            from[usize::from(old - 7777)],
            format!("\"127.0.0.1:{new}\""),
        )
    };
    let url = || ("\"redis://127.0.0.1:6379\"", format!("\"{}\"", redis.url()));
    let of_api = [address(7777, listen), address(7778, admin), url()];
    machine.edit(&settings_path("api"), &of_api);
    machine.edit(&settings_path("pumpd"), &[address(7779, pump), url()]);
    InstalledPorts {
        listen,
        admin,
        pump,
    }
}

/// The daemons of the packages, with the installed settings.
struct InstalledDeployment {
    api: ProgramProcess,
    pump: ProgramProcess,
    listen: u16,
    /// An API key for the namespace `shop`.
    key: String,
}

impl InstalledDeployment {
    async fn start(machine: &DebianMachine, ports: &InstalledPorts) -> Self {
        let mut pump = machine.start_unit("tidegate-pumpd");
        let mut api = machine.start_unit("tidegate-api");
        wait_until_ready(machine, "tidegate-pumpd", &mut pump, ports.pump).await;
        wait_until_ready(machine, "tidegate-api", &mut api, ports.admin).await;
        for process in [&api, &pump] {
            let status = fs::read_to_string(format!("/proc/{}/status", process.pid())).unwrap();
            let user = status
                .lines()
                .find(|line| line.starts_with("Uid:"))
                .unwrap();
            assert!(!user.split_whitespace().any(|id| id == "0"), "{user}");
        }
        let body = json!({"scopes": ["publish", "consume"], "description": "a test"});
        let mut http = RawHttp::connect(([127, 0, 0, 1], ports.admin).into()).await;
        http.request("POST", "/v1/shop/keys", &[], body.to_string().as_bytes())
            .await;
        let created = http.answer().await.unwrap().expect(201).json();
        Self {
            api,
            pump,
            listen: ports.listen,
            key: created["secret"].as_str().unwrap().to_owned(),
        }
    }

    /// Publishes a delayed job and runs a program for it, with the command line of the package.
    async fn serve_job(&self, machine: &DebianMachine, payload: &str) {
        let url = format!("TG_URL=http://127.0.0.1:{}", self.listen);
        let key = format!("TG_KEY={}", self.key);
        let tidegate = ["env", &url, &key, "TG_NAMESPACE=shop", "tidegate"];
        let publish = [
            "publish",
            "orders",
            payload,
            "--delay",
            "300ms",
            "--content-type",
            "text/plain",
        ];
        machine.run(&[&tidegate[..], &publish].concat());
        let received = format!("/tmp/{payload}");
        let program = format!("cat > {received}.part && mv {received}.part {received}");
        let work = ["work", "orders", "--", "sh", "-c", &program];
        let mut worker = machine.command(&[&tidegate[..], &work].concat());
        let log = machine.log("worker");
        let mut worker = ProgramProcess::start(&mut worker, &log).unwrap();
        eventually("the job is received", LIMIT, async || {
            let content = machine.try_run(&["cat", &received]);
            content.map_err(|error| format!("{error}; {}", log_tail(&log, 0)))
        })
        .await;
        assert_eq!(machine.read(&received), payload);
        assert!(worker.stop(LIMIT), "the worker was killed");
    }

    fn stop(mut self) {
        for process in [&mut self.api, &mut self.pump] {
            assert!(process.stop(LIMIT), "a daemon was killed");
            assert_eq!(process.exit_status().unwrap().code(), Some(0));
        }
    }
}

async fn wait_until_ready(
    machine: &DebianMachine,
    package: &str,
    process: &mut ProgramProcess,
    port: u16,
) {
    let log = machine.log(package);
    eventually(package, LIMIT, async || {
        if let Some(status) = process.exit_status() {
            panic!("{package} ended ({status}): {}", log_tail(&log, 0));
        }
        let connected = RawHttp::try_connect(([127, 0, 0, 1], port).into()).await;
        let mut http = connected.map_err(|error| error.to_string())?;
        http.request("GET", "/readyz", &[], b"").await;
        match http.answer().await {
            Some(answer) if answer.status == 200 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

/// Settings that the administrator changed are kept, with those of the new version beside them. Others are replaced.
fn check_settings_after_upgrade(machine: &DebianMachine, ports: &InstalledPorts) {
    for (settings, port) in [("api", ports.listen), ("pumpd", ports.pump)] {
        let path = settings_path(settings);
        let kept = machine.read(&path);
        assert!(kept.contains(&format!(":{port}\"")), "{kept}");
        assert!(!kept.contains(NEW_LINE), "{settings}");
        assert!(
            machine
                .read(&format!("{path}.dpkg-dist"))
                .ends_with(NEW_LINE)
        );
    }
    let replaced = machine.read(&settings_path("relayd"));
    assert!(replaced.ends_with(NEW_LINE), "{replaced}");
    for (_, settings) in DAEMONS {
        let rights = machine.rights(&settings_path(settings));
        assert_eq!(rights, "root tidegate 640", "{settings}");
    }
}

/// Settings that were deleted come back if dpkg is asked for them, and the daemon can read them. An owner or a mode
/// that the administrator chose stays.
fn check_rights_of_settings(machine: &DebianMachine) {
    let path = settings_path("relayd");
    let reinstall = format!("dpkg --install --force-confmiss {PACKAGES}/next/tidegate-relayd*.deb");
    machine.run(&["rm", &path]);
    machine.run(&["sh", "-c", &reinstall]);
    assert_eq!(machine.rights(&path), "root tidegate 640");
    for (owner, mode, rights) in [
        ("root:root", "600", "root root 600"),
        ("root:adm", "640", "root adm 640"),
        ("daemon:root", "640", "daemon root 640"),
    ] {
        machine.run(&["chown", owner, &path]);
        machine.run(&["chmod", mode, &path]);
        machine.run(&["sh", "-c", &reinstall]);
        assert_eq!(machine.rights(&path), rights);
    }
}

/// New log files have mode 0640, before the umask.
#[test]
fn the_units_let_their_group_read_logs_and_others_nothing() {
    for (package, _) in DAEMONS {
        let unit = read(&format!("deploy/systemd/{package}.service"));
        let masks: Vec<u32> = unit
            .lines()
            .filter_map(|line| line.strip_prefix("UMask="))
            .map(|mask| u32::from_str_radix(mask, 8).unwrap())
            .collect();
        let [mask] = masks[..] else {
            panic!("{package}: {masks:?}");
        };
        assert_eq!(0o640 & !mask, 0o640, "{package}: {mask:o}");
        assert_eq!(0o666 & !mask & 0o027, 0, "{package}: {mask:o}");
    }
}

fn remove_and_purge(machine: &DebianMachine) {
    let link = "/etc/systemd/system/multi-user.target.wants/tidegate-pumpd.service";
    let has_systemd = machine.try_run(&["which", "systemctl"]).is_ok();
    if has_systemd {
        machine.run(&["systemctl", "--quiet", "enable", "tidegate-pumpd.service"]);
        machine.run(&["test", "-h", link]);
    }
    machine.run(&[&["dpkg", "--remove"], &ALL[..]].concat());
    assert!(
        machine.try_run(&["test", "-h", link]).is_err(),
        "{link} is left"
    );
    for program in [
        "tidegate",
        "tidegate-api",
        "tidegate-pumpd",
        "tidegate-relayd",
    ] {
        assert!(!machine.exists(&format!("/usr/bin/{program}")), "{program}");
    }
    for (package, settings) in DAEMONS {
        assert!(machine.exists(&settings_path(settings)), "{settings}");
        machine.run(&[
            "install",
            "-D",
            "/dev/null",
            &format!("/var/log/{package}/error.log"),
        ]);
        machine.run(&[
            "install",
            "/dev/null",
            &format!("/etc/tidegate/{settings}.env"),
        ]);
    }
    machine.run(&[&["dpkg", "--purge"], &ALL[..]].concat());
    let left: Vec<PathBuf> = [
        "/etc/tidegate",
        "/var/log/tidegate-api",
        "/etc/logrotate.d/tidegate-pumpd",
    ]
    .into_iter()
    .filter(|path| machine.exists(path))
    .map(PathBuf::from)
    .collect();
    assert!(left.is_empty(), "{left:?}");
    let known = machine.try_run(&["dpkg-query", "--show", "tidegate-*"]);
    assert!(known.is_err(), "{known:?}");
    // Its number must not become that of another user.
    machine.run(&["getent", "passwd", "tidegate"]);
}
