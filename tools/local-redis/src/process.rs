//! One run of a server process.

use std::fs;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use tidegate_local_program::ProgramProcess;

use crate::error::LocalRedisError;
use crate::folder::DataFolder;
use crate::options::LocalRedisOptions;
use crate::probe::probe;

const START_LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) struct ServerProcess(ProgramProcess);

impl ServerProcess {
    /// Starts the program and waits until it accepts commands.
    pub(crate) fn start(
        options: &LocalRedisOptions,
        folder: &DataFolder,
        port: u16,
    ) -> Result<Self, LocalRedisError> {
        let log_begin = fs::metadata(folder.log_path()).map_or(0, |data| data.len());
        let mut process = Self::spawn(options, folder, port)?;
        folder.write_pid(process.pid(), port)?;
        process.wait_until_ready(options, port).map_err(|reason| {
            process.kill();
            folder.remove_pid();
            LocalRedisError::NotStarted {
                program: options.binary.path().to_owned(),
                port,
                reason,
                log_path: folder.log_path(),
                log: folder.log_tail(log_begin),
            }
        })?;
        Ok(process)
    }

    /// The server has a separate process group: Ctrl-C in a terminal reaches only the parent, which then ends the
    /// server.
    fn spawn(
        options: &LocalRedisOptions,
        folder: &DataFolder,
        port: u16,
    ) -> Result<Self, LocalRedisError> {
        let configuration = folder.configuration_path();
        if !options.keeps_its_file() || !configuration.exists() {
            fs::write(&configuration, options.configuration(port, folder.path())).map_err(
                LocalRedisError::io(format!("writing {}", configuration.display())),
            )?;
        }
        let mut command = match options.ignores_sigxfsz {
            true => options.binary.command_ignoring_sigxfsz(),
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
            );
        let doing = format!("starting {}", options.binary.path().display());
        let started = ProgramProcess::start(&mut command, &folder.log_path());
        started.map(Self).map_err(LocalRedisError::io(doing))
    }

    fn wait_until_ready(&mut self, options: &LocalRedisOptions, port: u16) -> Result<(), String> {
        let own = self.pid();
        let check = || match probe(port, &options.login()) {
            Ok(pid) if pid == own => Ok(()),
            Ok(other) => Err(format!("another server (process {other}) uses the port")),
            Err(error) => Err(error.to_string()),
        };
        self.0.wait_until(START_LIMIT, check)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Returns the exit status if the process has ended.
    pub(crate) fn exit_status(&mut self) -> Option<ExitStatus> {
        self.0.exit_status()
    }

    pub(crate) fn pause(&self) -> io::Result<()> {
        self.0.pause()
    }

    pub(crate) fn resume(&self) -> io::Result<()> {
        self.0.resume()
    }

    /// Sends SIGTERM, and SIGKILL if the process has not ended within `limit`. Returns whether SIGTERM was
    /// enough; true if the process had ended before.
    pub(crate) fn stop(&mut self, limit: Duration) -> bool {
        self.0.stop(limit)
    }

    pub(crate) fn kill(&mut self) {
        self.0.kill();
    }
}
