//! `tidegate work`: which programs run for which jobs, and how they end.

use std::fs::Permissions;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tidegate_testkit::eventually;

use super::command_line::CommandLine;
use super::running::until_full;
use super::{LIMIT, SERVER};

/// A worker. When it is stopped it gets two signals, as from a terminal or GNU `timeout`: they are one request.
struct WorkProcess(Child);

impl WorkProcess {
    fn start(cli: &CommandLine, arguments: &[&str]) -> Self {
        let mut command = cli.command(&[&["work"], arguments].concat());
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }

    /// Returns its exit code.
    fn stop(mut self) -> Option<i32> {
        let pid = self.0.id().to_string();
        for signal in ["-TERM", "-INT"] {
            let killed = Command::new("kill").args([signal, &pid]).status();
            assert!(killed.unwrap().success());
        }
        self.0.wait().unwrap().code()
    }
}

#[tokio::test]
async fn work_runs_a_program_for_each_job() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "work").await;
    let folder = tempfile::tempdir().unwrap();
    for key in ["good", "bad", "dead"] {
        let publish = ["publish", "w", r#"{"n":1}"#, "--attr", "trace-id=t1"];
        cli.out(&[publish.as_slice(), &["--key", key, "--retain", "1h"]].concat());
    }
    let script = r#"
        { cat; echo " $TG_ATTR_TRACE_ID $TG_JOB_QUEUE $TG_JOB_ATTEMPT"; } > "$1/$TG_JOB_KEY"
        case $TG_JOB_KEY in
            bad) echo first >&2; echo "the shop is closed" >&2; exit 3 ;;
            dead) exit 100 ;;
        esac"#;
    let path = folder.path().to_str().unwrap();
    let program = [
        "w",
        "--concurrency",
        "2",
        "--",
        "sh",
        "-c",
        script,
        "sh",
        path,
    ];
    let worker = WorkProcess::start(&cli, &program);
    let states = || {
        let shown = |key| cli.json(&["job", "show", "w", &format!("key:{key}")]);
        ["good", "bad", "dead"].map(shown)
    };
    let [_, bad, dead] = eventually("all have run", LIMIT, async || {
        let shown = states();
        let is_over = |job: &Value| job["state"] == "done" || job["failures"] == 1;
        match shown.iter().all(is_over) {
            true => Ok(shown),
            false => Err(format!("{shown:?}")),
        }
    })
    .await;
    assert_eq!(bad["state"], "delayed", "{bad}");
    assert!(bad.to_string().contains("the shop is closed"), "{bad}");
    assert_eq!(dead["state"], "dead", "{dead}");
    assert!(dead.to_string().contains("100"), "{dead}");
    let written = std::fs::read_to_string(folder.path().join("good")).unwrap();
    assert_eq!(written, "{\"n\":1} t1 w 1\n");
    assert_eq!(worker.stop(), Some(0));

    let upper = ["r", "--result", "text/plain", "--", "tr", "a-z", "A-Z"];
    let worker = WorkProcess::start(&cli, &upper);
    assert_eq!(cli.out(&["call", "r", "\"abc\""]), "\"ABC\"");
    assert_eq!(worker.stop(), Some(0));

    // A process that was left behind has the standard output: the result is not known, and the job is not held for
    // ever.
    let leaves = "sleep 20 & echo done";
    let leaves = ["h", "--result", "text/plain", "--", "sh", "-c", leaves];
    work_fails(&cli, &leaves, "left behind").await;

    // The program fails because more is not read: that is the reason, not its signal.
    let endless = "tr '\\0' x </dev/zero";
    let endless = ["e", "--result", "text/plain", "--", "sh", "-c", endless];
    work_fails(&cli, &endless, "more than 64 MiB").await;

    // It is there, and cannot be started: its interpreter is missing.
    let script = folder.path().join("broken");
    std::fs::write(&script, "#!/no/such/program\n").unwrap();
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let script = script.to_str().unwrap();
    work_fails(&cli, &["m", "--", script], "failed to start").await;
}

/// Runs a worker of the queue that comes first, whose job must fail with an error that has this text.
async fn work_fails(cli: &CommandLine, arguments: &[&str], text: &str) {
    let worker = WorkProcess::start(cli, arguments);
    cli.out(&["publish", arguments[0], "{}", "--key", "k"]);
    fails_because(cli, arguments[0], text).await;
    assert_eq!(worker.stop(), Some(0));
}

/// Waits until the job with the key `k` has failed with an error that has this text.
async fn fails_because(cli: &CommandLine, queue: &str, text: &str) {
    eventually("the failure names its reason", LIMIT, async || {
        let job = cli.json(&["job", "show", queue, "key:k"]);
        match job["history"].to_string().contains(text) {
            true => Ok(()),
            false => Err(job.to_string()),
        }
    })
    .await;
}

/// The text that a program has written to a file, once it is there.
async fn content_of(folder: &Path, name: &str) -> String {
    let file = folder.join(name);
    eventually(name, LIMIT, async || {
        std::fs::read_to_string(&file).map_err(|error| error.to_string())
    })
    .await
}

/// The program of a job that is cancelled gets SIGTERM. The worker waits at its stop for programs that run.
#[tokio::test]
async fn programs_end_when_their_jobs_are_cancelled_and_a_stop_waits_for_them() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "cancelled").await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let script = r#"
        trap 'echo ended > "$1/$TG_JOB_KEY"; exit 1' TERM
        echo > "$1/$TG_JOB_KEY.runs"
        while [ ! -e "$1/go" ]; do sleep 0.05; done
        echo done > "$1/$TG_JOB_KEY""#;
    let program = ["c", "--lease", "3s", "--", "sh", "-c", script, "sh", path];
    let worker = WorkProcess::start(&cli, &program);
    let has = async |name| content_of(folder.path(), name).await;
    cli.out(&["publish", "c", "{}", "--key", "a"]);
    has("a.runs").await;
    cli.out(&["job", "cancel", "c", "key:a", "--running", "ask"]);
    assert_eq!(has("a").await, "ended\n");
    cli.out(&["publish", "c", "{}", "--key", "b", "--retain", "1h"]);
    has("b.runs").await;
    let stopping = tokio::task::spawn_blocking(|| worker.stop());
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!stopping.is_finished(), "the program still runs");
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(stopping.await.unwrap(), Some(0));
    assert_eq!(has("b").await, "done\n");
    assert_eq!(cli.json(&["job", "show", "c", "key:b"])["state"], "done");
}

/// Whether a process still runs. One that has ended may be listed until its parent has waited for it.
fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    !state.is_empty() && !state.starts_with('Z')
}

/// A shell starts processes of its own, which Ctrl-C at the terminal of the worker does not reach.
#[tokio::test]
async fn processes_of_a_program_end_with_it() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "groups").await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let script = r#"sleep 300 & echo $! > "$1/pid"; mv "$1/pid" "$1/$TG_JOB_KEY"; wait"#;
    let program = ["g", "--lease", "3s", "--grace", "100ms"];
    let program = [program.as_slice(), &["--", "sh", "-c", script, "sh", path]].concat();
    let worker = WorkProcess::start(&cli, &program);
    let child_of = async |key| content_of(folder.path(), key).await.trim().to_owned();
    let ends = async |pid: &str| {
        eventually("it has ended", LIMIT, async || match is_running(pid) {
            true => Err(format!("{pid} still runs")),
            false => Ok(()),
        })
        .await;
    };
    cli.out(&["publish", "g", "{}", "--key", "a"]);
    let pid = child_of("a").await;
    assert!(is_running(&pid));
    cli.out(&["job", "cancel", "g", "key:a", "--running", "revoke"]);
    ends(&pid).await;
    // When its time to end is over.
    cli.out(&["publish", "g", "{}", "--key", "b"]);
    let pid = child_of("b").await;
    let stopped = tokio::task::spawn_blocking(|| worker.stop()).await.unwrap();
    assert!(stopped.is_some());
    ends(&pid).await;
}

/// A progress bar has no line breaks.
#[tokio::test]
async fn errors_without_line_breaks_are_shown_at_once_and_not_kept() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "progress").await;
    let script = r#"
        printf '1 %%\r' >&2
        read -r line < "$1"
        head -c 64000000 /dev/zero | tr '\0' x >&2
        printf '\rthe disk is full' >&2
        exit 1"#;
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let path = pipe.to_str().unwrap();
    let mut command = cli.command(&["work", "p", "--", "sh", "-c", script, "sh", path]);
    let mut worker = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = worker.stderr.take().unwrap();
    let worker = WorkProcess(worker);
    cli.out(&["publish", "p", "{}", "--key", "k"]);
    let shown = tokio::task::spawn_blocking(move || {
        let mut first = [0; 4];
        errors.read_exact(&mut first).unwrap();
        // The program goes on when its first bytes were shown.
        std::fs::write(&pipe, "\n").unwrap();
        // Read until the worker has ended.
        drop(std::io::copy(&mut errors, &mut std::io::sink()));
        first
    });
    fails_because(&cli, "p", "the disk is full").await;
    let memory = std::fs::read_to_string(format!("/proc/{}/status", worker.0.id())).unwrap();
    let most = memory.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let most = most.unwrap().trim().trim_end_matches(" kB");
    // The program wrote 61 MiB.
    assert!(most.parse::<u64>().unwrap() < 60_000, "{most} KiB");
    assert_eq!(worker.stop(), Some(0));
    assert_eq!(&shown.await.unwrap(), b"1 %\r");
}

/// More programs than the worker has threads write more than pipes hold, and run for longer than a lease.
#[tokio::test]
async fn a_reader_of_errors_that_stalls_holds_up_no_program_and_no_lease() {
    const JOBS: usize = 24;
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "stalls").await;
    for number in 0..JOBS {
        let key = format!("k{number}");
        cli.out(&["publish", "s", "{}", "--key", &key, "--retain", "1h"]);
    }
    let script = "head -c 1000000 /dev/zero | tr '\\0' x >&2; sleep 4";
    let arguments = ["work", "s", "--concurrency", "24", "--lease", "2s"];
    let program = ["--", "sh", "-c", script];
    let mut worker = cli
        .command(&[arguments.as_slice(), &program].concat())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut unread = worker.stderr.take().unwrap();
    let worker = WorkProcess(worker);
    let jobs = eventually("all are done", LIMIT, async || {
        let jobs = cli.json(&["job", "ls", "s", "--state", "done"]);
        match jobs.as_array().unwrap().len() {
            JOBS => Ok(jobs),
            done => Err(done),
        }
    });
    for job in jobs.await.as_array().unwrap() {
        assert_eq!((&job["attempt"], &job["losses"]), (&1.into(), &0.into()));
    }
    // The worker reports the dropped bytes when the reader continues.
    let read = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        let mut part = vec![0; 64 * 1024];
        while !text.contains(" bytes of the standard error were dropped") {
            let read = unread.read(&mut part).unwrap();
            assert!(read > 0, "it is said");
            text.push_str(&String::from_utf8_lossy(&part[..read]));
        }
        unread
    });
    let unread = tokio::time::timeout(LIMIT, read).await.unwrap().unwrap();
    let stopped = tokio::task::spawn_blocking(|| worker.stop());
    let stopped = tokio::time::timeout(LIMIT, stopped).await.unwrap();
    assert_eq!(stopped.unwrap(), Some(0));
    drop(unread);
}

/// A program floods the standard error, which no process reads, until it is stopped.
#[tokio::test]
async fn a_signal_ends_a_worker_whose_errors_are_not_read() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "floods").await;
    for _ in 0..24 {
        cli.out(&["publish", "f", "{}"]);
    }
    let folder = tempfile::tempdir().unwrap();
    let script = r#"echo > "$1/$TG_JOB_ID"; exec tr '\0' x < /dev/zero >&2"#;
    let path = folder.path().to_str().unwrap();
    let arguments = ["work", "f", "--concurrency", "24", "--grace", "1s"];
    let program = ["--", "sh", "-c", script, "sh", path];
    let mut worker = cli
        .command(&[arguments.as_slice(), &program].concat())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let unread = worker.stderr.take().unwrap();
    let worker = WorkProcess(worker);
    eventually(
        "all programs run",
        LIMIT,
        async || match std::fs::read_dir(folder.path()).unwrap().count() {
            24 => Ok(()),
            running => Err(running),
        },
    )
    .await;
    until_full(&unread).await;
    let stopped = tokio::task::spawn_blocking(|| worker.stop());
    let stopped = tokio::time::timeout(LIMIT, stopped).await.unwrap();
    assert!(stopped.unwrap().is_some());
}
