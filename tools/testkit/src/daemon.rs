//! A daemon process.

mod metrics;
mod start;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use tidegate_local_redis::free_port;

use crate::eventually::eventually;
use crate::process::ChildProcess;
use crate::program::{DaemonProgram, owned_pairs, read};
use start::DaemonStart;

const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Time for a line to be written to the log.
const LOG_LIMIT: Duration = Duration::from_secs(30);
/// Starts with new ports, since another process may take a port before the daemon binds it.
const PORT_TRIES: usize = 5;

/// A daemon process, which can be stopped and restarted.
///
/// Its ports stay the same over restarts. Dropping it kills the process.
#[derive(Debug)]
pub struct Daemon {
    program: DaemonProgram,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    log: PathBuf,
    listen: Option<SocketAddr>,
    admin: SocketAddr,
    process: Mutex<ChildProcess>,
    /// The limit of open files, from the next start on.
    files_max: Mutex<Option<u64>>,
}

impl Daemon {
    /// Starts a daemon on free ports and waits until it serves. `arguments` are all but the
    /// addresses. It logs to `<folder>/<name>.log`.
    ///
    /// # Panics
    /// If it ends or does not serve in time.
    pub async fn start(
        program: DaemonProgram,
        name: &str,
        arguments: &[String],
        folder: &Path,
    ) -> Self {
        Self::start_with(program, name, arguments, &[], folder).await
    }

    /// Like [`Self::start`], with these environment variables.
    ///
    /// # Panics
    /// If it ends or does not serve in time.
    pub async fn start_with(
        program: DaemonProgram,
        name: &str,
        arguments: &[String],
        environment: &[(&str, &str)],
        folder: &Path,
    ) -> Self {
        let started = Self::try_start(program, name, arguments, environment, folder).await;
        started.unwrap_or_else(|said| panic!("{name} did not start: {said}"))
    }

    /// Like [`Self::start_with`], for a daemon that may refuse to start.
    ///
    /// # Errors
    /// It ended, or did not serve within 20 s. The error has its output.
    pub async fn try_start(
        program: DaemonProgram,
        name: &str,
        arguments: &[String],
        environment: &[(&str, &str)],
        folder: &Path,
    ) -> Result<Self, String> {
        let environment = owned_pairs(environment);
        let log = folder.join(format!("{name}.log"));
        for try_number in 1..=PORT_TRIES {
            let listen = (program == DaemonProgram::Api).then(free_address);
            let admin = free_address();
            let mut all = vec!["--admin-listen".to_owned(), admin.to_string()];
            if let Some(listen) = listen {
                all.extend(["--listen".to_owned(), listen.to_string()]);
            }
            all.extend_from_slice(arguments);
            let start = DaemonStart {
                program,
                arguments: &all,
                environment: &environment,
                log: &log,
                is_unread: false,
                files_max: None,
            };
            match start.launch(admin).await {
                Ok(process) => {
                    return Ok(Self {
                        program,
                        arguments: all,
                        environment,
                        log,
                        listen,
                        admin,
                        process: Mutex::new(process),
                        files_max: Mutex::default(),
                    });
                }
                Err(said) if try_number < PORT_TRIES && said.contains("in use") => {}
                Err(said) => return Err(said),
            }
        }
        Err("no free port".to_owned())
    }

    /// Address of the API port.
    ///
    /// # Panics
    /// For a pump, which has none.
    #[must_use]
    pub fn listen(&self) -> SocketAddr {
        self.listen.expect("only an API has an API port")
    }

    /// Address of the admin port.
    #[must_use]
    pub const fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// `http://` and [`Self::listen`].
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.listen())
    }

    /// `http://` and [`Self::admin`].
    #[must_use]
    pub fn admin_url(&self) -> String {
        format!("http://{}", self.admin)
    }

    /// Kills the process (SIGKILL).
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Requests a stop (SIGTERM).
    pub fn terminate(&self) {
        let process = self.process();
        // A stopped process does not handle SIGTERM.
        process.signal(Signal::CONT);
        process.signal(Signal::TERM);
    }

    /// Requests a stop (SIGTERM) and waits for the end.
    ///
    /// # Panics
    /// If it has not ended within `limit`.
    pub async fn stop(&self, limit: Duration) -> ExitStatus {
        self.terminate();
        self.wait(limit).await
    }

    /// Makes it reload its settings and reopen its log files (SIGHUP).
    pub fn reload(&self) {
        self.process().signal(Signal::HUP);
    }

    /// Makes it reopen its log files (SIGUSR1).
    pub fn reopen_logs(&self) {
        self.process().signal(Signal::USR1);
    }

    /// Waits until it has ended.
    ///
    /// # Panics
    /// If it has not ended within `limit`.
    pub async fn wait(&self, limit: Duration) -> ExitStatus {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.process().exit_status() {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "{} did not end within {limit:?}",
                self.program.name()
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Pauses it (SIGSTOP): its connections stay open, and nothing is answered.
    pub fn pause(&self) {
        self.process().signal(Signal::STOP);
    }

    /// Resumes it after [`Self::pause`].
    pub fn resume(&self) {
        self.process().signal(Signal::CONT);
    }

    /// Kills it, if it is running, and starts it again with the same arguments and addresses.
    ///
    /// # Panics
    /// If it does not serve in time.
    pub async fn restart(&self) {
        self.restart_with(false).await;
    }

    /// Like [`Self::restart`], with standard output and error on a full pipe.
    ///
    /// # Panics
    /// If it does not serve in time.
    pub async fn restart_with_full_pipe(&self) {
        self.restart_with(true).await;
    }

    /// Sets the limit of open files and sockets from the next start on; `None` = unchanged.
    pub fn set_files_max(&self, files_max: Option<u64>) {
        *self.next_files_max() = files_max;
    }

    fn next_files_max(&self) -> MutexGuard<'_, Option<u64>> {
        self.files_max
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn restart_with(&self, is_unread: bool) {
        self.kill();
        let start = DaemonStart {
            program: self.program,
            arguments: &self.arguments,
            environment: &self.environment,
            log: &self.log,
            is_unread,
            files_max: *self.next_files_max(),
        };
        let started = start.launch(self.admin).await;
        let process = started
            .unwrap_or_else(|said| panic!("{} did not start again: {said}", self.program.name()));
        *self.process() = process;
    }

    /// Whether it is running. A paused process is running.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.process().exit_status().is_none()
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process().pid()
    }

    /// Returns its resident memory, in bytes.
    ///
    /// # Panics
    /// If there is no `/proc`, or the process is not running.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// Returns its peak resident memory, in bytes.
    ///
    /// # Panics
    /// If there is no `/proc`, or the process is not running.
    #[must_use]
    pub fn resident_bytes_peak(&self) -> u64 {
        self.memory("VmHWM:")
    }

    fn memory(&self, field: &str) -> u64 {
        let path = format!("/proc/{}/status", self.pid());
        let status = std::fs::read_to_string(&path).expect("/proc has the memory of the process");
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = line
            .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
            .expect("a number of kB");
        kib * 1024
    }

    /// Returns the number of its open files and sockets.
    ///
    /// # Panics
    /// If there is no `/proc`, or the process is not running.
    #[must_use]
    pub fn open_files(&self) -> u64 {
        let listed = std::fs::read_dir(format!("/proc/{}/fd", self.pid()));
        listed.expect("/proc has the files of the process").count() as u64
    }

    /// Sets its limit of open files and sockets, like `ulimit -n`.
    ///
    /// # Panics
    /// If the system does not allow it.
    pub fn limit_open_files(&self, files_max: u64) {
        let pid = Pid::from_raw(self.pid().cast_signed());
        let limit = Rlimit {
            current: Some(files_max),
            maximum: Some(files_max),
        };
        prlimit(pid, Resource::Nofile, limit).expect("a limit can be lowered");
    }

    /// Returns its CPU time.
    ///
    /// # Panics
    /// If there is no `/proc`, or the process is not running.
    #[must_use]
    pub fn cpu_time(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid()));
        let of_task = |task: std::io::Result<std::fs::DirEntry>| {
            let path = task.ok()?.path().join("schedstat");
            let text = std::fs::read_to_string(path).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        };
        let tasks = tasks.expect("/proc has the threads of the process");
        Duration::from_nanos(tasks.filter_map(of_task).sum())
    }

    /// Returns all its output, over restarts.
    #[must_use]
    pub fn log(&self) -> String {
        read(&self.log)
    }

    /// The log once it has this text: a line is written a moment after its event.
    pub async fn log_with(&self, text: &str) -> String {
        let what = format!("the log has {text:?}");
        let log = async || match self.log() {
            log if log.contains(text) => Ok(log),
            log => Err(log),
        };
        eventually(&what, LOG_LIMIT, log).await
    }

    fn process(&self) -> MutexGuard<'_, ChildProcess> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn free_address() -> SocketAddr {
    let port = free_port().expect("there is a free port");
    (Ipv4Addr::LOCALHOST, port).into()
}
