//! One daemon process.

mod start;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use tidegate_local_redis::free_port;

use crate::eventually::eventually;
use crate::process::Process;
use crate::program::{Program, owned, read};
use crate::raw::RawHttp;
use start::Start;

const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// What an api tells about its waiting consumers.
const WAITING: &str = "tidegate_waiting_seats";
/// Somebody else may take a port between its choice and its use.
const PORT_TRIES: usize = 5;

/// A daemon that runs, or has run and may run again.
///
/// Its ports stay the same over restarts. Dropping it ends the process at once.
#[derive(Debug)]
pub struct Daemon {
    program: Program,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    log: PathBuf,
    listen: Option<SocketAddr>,
    admin: SocketAddr,
    process: Mutex<Process>,
    /// The limit of open files of the next starts.
    files_max: Mutex<Option<u64>>,
}

impl Daemon {
    /// Starts a daemon on free ports and waits until it serves. `arguments` are all but the
    /// addresses; its log becomes `<folder>/<name>.log`.
    ///
    /// # Panics
    /// When it ends or does not serve in time.
    pub async fn start(program: Program, name: &str, arguments: &[String], folder: &Path) -> Self {
        Self::start_with(program, name, arguments, &[], folder).await
    }

    /// The same, with these variables in its environment.
    ///
    /// # Panics
    /// When it ends or does not serve in time.
    pub async fn start_with(
        program: Program,
        name: &str,
        arguments: &[String],
        environment: &[(&str, &str)],
        folder: &Path,
    ) -> Self {
        let started = Self::try_start(program, name, arguments, environment, folder).await;
        started.unwrap_or_else(|said| panic!("{name} did not start: {said}"))
    }

    /// The same for a daemon that may refuse to start.
    ///
    /// # Errors
    /// It ended, or did not serve in time: what it wrote.
    pub async fn try_start(
        program: Program,
        name: &str,
        arguments: &[String],
        environment: &[(&str, &str)],
        folder: &Path,
    ) -> Result<Self, String> {
        let environment = owned(environment);
        let log = folder.join(format!("{name}.log"));
        for try_number in 1..=PORT_TRIES {
            let listen = (program == Program::Api).then(free_address);
            let admin = free_address();
            let mut all = vec!["--admin-listen".to_owned(), admin.to_string()];
            if let Some(listen) = listen {
                all.extend(["--listen".to_owned(), listen.to_string()]);
            }
            all.extend_from_slice(arguments);
            let start = Start {
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
        Err("there is no free port".to_owned())
    }

    /// Where it takes requests.
    ///
    /// # Panics
    /// For a pump, which takes none.
    #[must_use]
    pub fn listen(&self) -> SocketAddr {
        self.listen.expect("only an api takes requests")
    }

    /// Where it takes requests of administrators and tells its metrics.
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

    /// Ends it at once (SIGKILL).
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(&self) {
        let process = self.process();
        // A paused process would not hear the request.
        process.signal(Signal::CONT);
        process.signal(Signal::TERM);
    }

    /// Asks it to end and waits for that.
    ///
    /// # Panics
    /// When it has not ended within `limit`.
    pub async fn stop(&self, limit: Duration) -> ExitStatus {
        self.terminate();
        self.wait(limit).await
    }

    /// Tells it to read its settings again, and to reopen its log files (SIGHUP).
    pub fn hang_up(&self) {
        self.process().signal(Signal::HUP);
    }

    /// Tells it to reopen its log files (SIGUSR1).
    pub fn reopen_logs(&self) {
        self.process().signal(Signal::USR1);
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it has not ended within `limit`.
    pub async fn wait(&self, limit: Duration) -> ExitStatus {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.process().ended() {
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

    /// Stops it in its tracks (SIGSTOP): its connections stay open, nothing is answered.
    pub fn pause(&self) {
        self.process().signal(Signal::STOP);
    }

    /// Lets it go on after [`Self::pause`].
    pub fn resume(&self) {
        self.process().signal(Signal::CONT);
    }

    /// Ends it at once, if it runs, and starts it again with the same arguments and addresses.
    ///
    /// # Panics
    /// When it does not serve in time.
    pub async fn restart(&self) {
        self.restart_with(false).await;
    }

    /// The same, with standard output and error on a full pipe.
    ///
    /// # Panics
    /// When it does not serve in time.
    pub async fn restart_unread(&self) {
        self.restart_with(true).await;
    }

    /// From its next start on it can have so many files and sockets open.
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
        let start = Start {
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

    /// Whether it runs (paused counts as running).
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.process().ended().is_none()
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process().pid()
    }

    /// The physical memory it uses now, in bytes.
    ///
    /// # Panics
    /// Where the system does not tell (`/proc`), or when it does not run.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// The most physical memory it has used, in bytes.
    ///
    /// # Panics
    /// Where the system does not tell (`/proc`), or when it does not run.
    #[must_use]
    pub fn resident_bytes_peak(&self) -> u64 {
        self.memory("VmHWM:")
    }

    fn memory(&self, field: &str) -> u64 {
        let path = format!("/proc/{}/status", self.pid());
        let status = std::fs::read_to_string(&path).expect("the system tells memory in /proc");
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = line
            .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
            .expect("a number of kB");
        kib * 1024
    }

    /// How many files and sockets it has open.
    ///
    /// # Panics
    /// Where the system does not tell (`/proc`), or when it does not run.
    #[must_use]
    pub fn open_files(&self) -> u64 {
        let listed = std::fs::read_dir(format!("/proc/{}/fd", self.pid()));
        listed.expect("the system tells files in /proc").count() as u64
    }

    /// From now on it can have so many files and sockets open, as with `ulimit -n`.
    ///
    /// # Panics
    /// When the system does not allow it.
    pub fn limit_open_files(&self, files_max: u64) {
        let pid = Pid::from_raw(self.pid().cast_signed());
        let limit = Rlimit {
            current: Some(files_max),
            maximum: Some(files_max),
        };
        prlimit(pid, Resource::Nofile, limit).expect("a limit can be lowered");
    }

    /// The time that processors have worked for it.
    ///
    /// # Panics
    /// Where the system does not tell (`/proc`), or when it does not run.
    #[must_use]
    pub fn processor_time(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid()));
        let of_task = |task: std::io::Result<std::fs::DirEntry>| {
            let path = task.ok()?.path().join("schedstat");
            let text = std::fs::read_to_string(path).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        };
        let tasks = tasks.expect("the system tells tasks in /proc");
        Duration::from_nanos(tasks.filter_map(of_task).sum())
    }

    /// All its metrics, in the text format of Prometheus.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn metrics(&self) -> String {
        let mut http = RawHttp::connect(self.admin).await;
        http.request("GET", "/metrics", &[], b"").await;
        let answer = http.answer().await.expect("metrics are told");
        answer.expect(200).text()
    }

    /// What it tells now under this name in its metrics, over all labels together; 0 when it tells
    /// nothing.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn metric(&self, name: &str) -> f64 {
        self.metric_where(name, "").await
    }

    /// The same, over the samples whose labels contain this text, such as `le="0.005"`.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn metric_where(&self, name: &str, label: &str) -> f64 {
        let text = self.metrics().await;
        let is_sample = |line: &&str| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with([' ', '{']) && rest.contains(label))
        };
        let samples = text.lines().filter(is_sample);
        samples
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }

    /// Waits until exactly so many consumers wait at this api.
    ///
    /// # Panics
    /// When that takes more than 20 s.
    pub async fn until_waiting(&self, consumers: usize) {
        let what = format!("{consumers} consumers wait");
        eventually(&what, Duration::from_secs(20), async || {
            let waiting = self.metric(WAITING).await;
            if waiting == consumers as f64 {
                Ok(())
            } else {
                Err(waiting)
            }
        })
        .await;
    }

    /// All that it has written, over restarts.
    #[must_use]
    pub fn log(&self) -> String {
        read(&self.log)
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn free_address() -> SocketAddr {
    let port = free_port().expect("there is a free port");
    (Ipv4Addr::LOCALHOST, port).into()
}
