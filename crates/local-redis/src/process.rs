//! One run of a server program, from its start to its end.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::error::Error;
use crate::folder::DataFolder;
use crate::options::Options;
use crate::probe::{Answer, ask};
use crate::watchdog::Watchdog;

const POLL_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// Called off before the end of `child` is collected.
    watchdog: Option<Watchdog>,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts the program and waits until it takes commands.
    pub(crate) fn start(options: &Options, folder: &DataFolder, port: u16) -> Result<Self, Error> {
        let log_begin = fs::metadata(folder.log_path()).map_or(0, |data| data.len());
        let mut process = Self::launch(options, folder, port)?;
        folder.note_process(process.pid(), port)?;
        process.wait_until_up(options, port).map_err(|reason| {
            process.kill();
            folder.forget_process();
            Error::NotStarted {
                program: options.binary.path().to_owned(),
                port,
                reason,
                log_path: folder.log_path(),
                log: folder.log_tail(log_begin),
            }
        })?;
        Ok(process)
    }

    /// The server has its own process group: an interrupt typed at a terminal is for its parent, which then ends it.
    fn launch(options: &Options, folder: &DataFolder, port: u16) -> Result<Self, Error> {
        let configuration = folder.configuration_path();
        if !options.is_sentinel || !configuration.exists() {
            fs::write(&configuration, options.configuration(port, folder.path()))
                .map_err(Error::io(format!("writing {}", configuration.display())))?;
        }
        let log = folder.log_path();
        let log_doing = format!("opening {}", log.display());
        let output = File::options()
            .create(true)
            .append(true)
            .open(log)
            .map_err(Error::io(&log_doing))?;
        let errors = output.try_clone().map_err(Error::io(&log_doing))?;
        let mut command = match options.outlives_a_full_disk {
            true => options.binary.command_outliving_a_full_disk(),
            false => options.binary.command(),
        };
        command
            .arg(configuration)
            .args(options.is_sentinel.then_some("--sentinel"))
            .envs(
                options
                    .environment
                    .iter()
                    .map(|(name, value)| (name, value)),
            )
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors);
        let doing = format!("starting {}", options.binary.path().display());
        let child = command.spawn().map_err(Error::io(doing))?;
        let mut process = Self {
            child,
            watchdog: None,
            status: None,
        };
        process.watchdog = Some(Watchdog::over(process.pid()).map_err(Error::io("starting sh"))?);
        Ok(process)
    }

    fn wait_until_up(&mut self, options: &Options, port: u16) -> Result<(), String> {
        let deadline = Instant::now() + options.start_limit;
        loop {
            if let Some(status) = self.ended() {
                return Err(format!("it ended ({status})"));
            }
            let answer = match ask(port, options.password()) {
                Answer::Up(pid) if pid == self.pid() => return Ok(()),
                Answer::Up(other) => format!("another server (process {other}) has the port"),
                Answer::NotYet(said) => said,
            };
            if Instant::now() >= deadline {
                return Err(format!(
                    "it was not up within {} s: {answer}",
                    options.start_limit.as_secs()
                ));
            }
            sleep(POLL_INTERVAL);
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did. Collecting the end frees the process id, so the watchdog goes first.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        if !self.runs() && self.status.is_none() {
            self.collect();
        }
        self.status
    }

    fn collect(&mut self) {
        self.watchdog = None;
        self.status = self.child.wait().ok();
    }

    /// Whether it runs. Its end is not collected, so that its process id stays its own.
    fn runs(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.status.is_none()
            && matches!(
                waitid(WaitId::Pid(Pid::from_child(&self.child)), look),
                Ok(None)
            )
    }

    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        if !self.runs() {
            return Err(io::Error::other("the server has ended"));
        }
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Asks it to end, and ends it if it has not within `limit`. Whether it ended by itself.
    pub(crate) fn stop(&mut self, limit: Duration) -> bool {
        if self.ended().is_some() {
            return true;
        }
        // A paused process would not hear the request.
        let asked = self
            .signal(Signal::CONT)
            .and_then(|()| self.signal(Signal::TERM));
        let deadline = Instant::now() + limit;
        while asked.is_ok() && Instant::now() < deadline {
            if self.ended().is_some() {
                return true;
            }
            sleep(POLL_INTERVAL);
        }
        self.kill();
        false
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        self.collect();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
