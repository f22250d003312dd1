//! A private broker: start, stop, kill, pause, restart.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tidegate_local_program::{ProgramProcess, log_tail};

use crate::error::LocalBrokerError;
use crate::kind::BrokerKind;
use crate::obtain::BrokerProgram;
use crate::ports::BrokerPorts;
use crate::tls::BrokerCertificate;
use crate::{kafka, nats, rabbitmq};

/// Erlang and Java on a busy machine take long to start.
const START_LIMIT: Duration = Duration::from_secs(120);
const QUEUE_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(20);
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// A broker on 127.0.0.1, private to this process. Dropping it kills it, and removes a temporary data folder unless
/// `TG_KEEP=1` is set.
#[derive(Debug)]
pub struct LocalBroker {
    // Dropped in this order: the processes end before their folder is removed.
    process: Option<ProgramProcess>,
    /// Erlang's port mapper, which RabbitMQ needs.
    _mapper: Option<ProgramProcess>,
    _temporary: Option<TempDir>,
    program: BrokerProgram,
    folder: PathBuf,
    ports: BrokerPorts,
    queue: Option<String>,
    certificate: Option<BrokerCertificate>,
}

impl LocalBroker {
    /// Starts a broker, and waits until it serves. Its data are in `folder`, which is created if it is missing and then
    /// kept; without it, in a temporary folder.
    ///
    /// # Errors
    /// [`LocalBrokerError::NotStarted`] with the last lines of its log; [`LocalBrokerError::Io`] if a system call
    /// failed.
    pub fn start(program: BrokerProgram, folder: Option<&Path>) -> Result<Self, LocalBrokerError> {
        Self::start_with(program, folder, None, None)
    }

    /// Like [`start`](Self::start) without a folder; the broker has a port for clients that use TLS, too
    /// ([`tls_url`](Self::tls_url)). NATS serves no others then.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn start_with_tls(
        program: BrokerProgram,
        certificate: BrokerCertificate,
    ) -> Result<Self, LocalBrokerError> {
        Self::start_with(program, None, None, Some(certificate))
    }

    /// Like [`start`](Self::start), with a queue of this name: a durable queue of RabbitMQ, a stream of NATS with this
    /// name that stores the subject of this name, or a topic of Kafka with three partitions. The name has letters,
    /// digits, `-` and `_`.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn start_with_queue(
        program: BrokerProgram,
        folder: Option<&Path>,
        queue: Option<&str>,
    ) -> Result<Self, LocalBrokerError> {
        Self::start_with(program, folder, queue, None)
    }

    fn start_with(
        program: BrokerProgram,
        folder: Option<&Path>,
        queue: Option<&str>,
        certificate: Option<BrokerCertificate>,
    ) -> Result<Self, LocalBrokerError> {
        let is_kept = std::env::var_os("TG_KEEP").is_some_and(|value| value == "1");
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix("tidegate-broker-").disable_cleanup(is_kept);
        let (folder, temporary) = match folder {
            Some(folder) => (folder.to_owned(), None),
            None => {
                let made = builder
                    .tempdir()
                    .map_err(LocalBrokerError::io("creating a temporary folder"))?;
                (made.path().to_owned(), Some(made))
            }
        };
        let doing = || format!("creating {}", folder.display());
        fs::create_dir_all(&folder).map_err(LocalBrokerError::io(doing()))?;
        let folder = folder
            .canonicalize()
            .map_err(LocalBrokerError::io(doing()))?;
        let mut broker = Self {
            process: None,
            _mapper: None,
            _temporary: temporary,
            program,
            folder,
            ports: BrokerPorts::free().map_err(LocalBrokerError::io("choosing a port"))?,
            queue: queue.map(str::to_owned),
            certificate,
        };
        broker._mapper = broker.start_mapper()?;
        broker.restart()?;
        Ok(broker)
    }

    fn start_mapper(&self) -> Result<Option<ProgramProcess>, LocalBrokerError> {
        if self.program.kind != BrokerKind::RabbitMq {
            return Ok(None);
        }
        let command = rabbitmq::port_mapper(&self.program.path, self.ports.mapper);
        let mut command = command.map_err(|reason| self.not_started(reason))?;
        let started = ProgramProcess::start(&mut command, &self.log_path());
        started
            .map(Some)
            .map_err(LocalBrokerError::io("starting epmd"))
    }

    /// Starts the broker again after [`stop`](Self::stop) or [`kill`](Self::kill), on the same port with the same data.
    /// Does nothing if it is running.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn restart(&mut self) -> Result<(), LocalBrokerError> {
        if self
            .process
            .as_mut()
            .is_some_and(|process| process.exit_status().is_none())
        {
            return Ok(());
        }
        let (program, folder) = (&self.program.path, &self.folder);
        let (queue, certificate) = (self.queue.as_deref(), self.certificate.as_ref());
        let command = match self.program.kind {
            BrokerKind::Nats => Ok(nats::command(program, folder, self.port(), certificate)),
            BrokerKind::RabbitMq => {
                rabbitmq::command(program, folder, self.ports, queue, certificate)
            }
            BrokerKind::Kafka => kafka::command(program, folder, self.ports, certificate),
        };
        let mut command = command.map_err(|reason| self.not_started(reason))?;
        let doing = format!("starting {}", self.program);
        let started = ProgramProcess::start(&mut command, &self.log_path());
        let mut process = started.map_err(LocalBrokerError::io(doing))?;
        let ready = process.wait_until(START_LIMIT, || self.probe());
        let ready = ready.and_then(|()| process.wait_until(QUEUE_LIMIT, || self.make_queue()));
        ready.map_err(|reason| self.not_started(reason))?;
        self.process = Some(process);
        Ok(())
    }

    /// Makes the queue by a request, if the broker needs it.
    fn make_queue(&self) -> Result<(), String> {
        let Some(queue) = &self.queue else {
            return Ok(());
        };
        match self.program.kind {
            BrokerKind::Nats => nats::make_stream(self.address(), queue),
            BrokerKind::RabbitMq => Ok(()),
            BrokerKind::Kafka => kafka::make_topic(self.address(), queue, &[]),
        }
    }

    /// Makes a topic with three partitions and these settings, such as `max.message.bytes`, unless there is one of this
    /// name.
    ///
    /// # Errors
    /// [`LocalBrokerError::Io`] if the broker is not a Kafka, or does not make it.
    pub fn make_topic(
        &self,
        name: &str,
        settings: &[(&str, &str)],
    ) -> Result<(), LocalBrokerError> {
        let made = match self.program.kind {
            BrokerKind::Kafka => kafka::make_topic(self.address(), name, settings),
            other => Err(format!("{other} has no topics")),
        };
        made.map_err(|reason| {
            let doing = format!("making the topic {name}");
            LocalBrokerError::io(doing)(std::io::Error::other(reason))
        })
    }

    fn probe(&self) -> Result<(), String> {
        let connection = TcpStream::connect_timeout(&self.address(), CONNECT_LIMIT);
        let mut connection = connection.map_err(|error| error.to_string())?;
        match self.program.kind {
            BrokerKind::Nats => nats::probe(&mut connection),
            BrokerKind::RabbitMq => rabbitmq::probe(&mut connection),
            BrokerKind::Kafka => kafka::probe(&mut connection),
        }
    }

    fn not_started(&self, reason: String) -> LocalBrokerError {
        LocalBrokerError::NotStarted {
            kind: self.program.kind,
            port: self.port(),
            reason,
            log_path: self.log_path(),
            log: log_tail(&self.log_path(), 0),
        }
    }

    /// Stops the broker with SIGTERM; kills it if it has not ended after 20 s. Returns whether SIGTERM was enough;
    /// `true` if it was not running.
    pub fn stop(&mut self) -> bool {
        let process = self.process.take();
        process.is_none_or(|mut process| process.stop(STOP_LIMIT))
    }

    /// Kills the broker (SIGKILL), like a crash.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Pauses the broker (SIGSTOP): connections stay open, and nothing is answered.
    ///
    /// # Errors
    /// [`LocalBrokerError::Io`] if it is not running.
    pub fn pause(&self) -> Result<(), LocalBrokerError> {
        self.running()
            .and_then(|process| process.pause())
            .map_err(LocalBrokerError::io("pausing the broker"))
    }

    /// Resumes a paused broker (SIGCONT).
    ///
    /// # Errors
    /// [`LocalBrokerError::Io`] if it is not running.
    pub fn resume(&self) -> Result<(), LocalBrokerError> {
        self.running()
            .and_then(|process| process.resume())
            .map_err(LocalBrokerError::io("resuming the broker"))
    }

    fn running(&self) -> std::io::Result<&ProgramProcess> {
        let process = self.process.as_ref();
        process.ok_or_else(|| std::io::Error::other("the broker is not running"))
    }

    #[must_use]
    pub const fn kind(&self) -> BrokerKind {
        self.program.kind
    }

    /// The port on 127.0.0.1. It stays the same over restarts.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.ports.clients
    }

    /// 127.0.0.1 and the port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port()))
    }

    /// `nats://127.0.0.1:PORT`; `amqp://127.0.0.1:PORT` for the user `guest` with the password `guest`; of Kafka
    /// `127.0.0.1:PORT`, as its clients write it.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = match self.program.kind {
            BrokerKind::Nats => "nats://",
            BrokerKind::RabbitMq => "amqp://",
            BrokerKind::Kafka => "",
        };
        format!("{scheme}{}", self.address())
    }

    /// The URL for clients that use TLS: `tls://127.0.0.1:PORT`, `amqps://127.0.0.1:PORT`, or of Kafka
    /// `127.0.0.1:PORT`.
    #[must_use]
    pub fn tls_url(&self) -> String {
        let (scheme, port) = match self.program.kind {
            BrokerKind::Nats => ("tls://", self.ports.clients),
            BrokerKind::RabbitMq => ("amqps://", self.ports.tls),
            BrokerKind::Kafka => ("", self.ports.tls),
        };
        format!("{scheme}127.0.0.1:{port}")
    }

    /// The path of the broker's log. Restarts append to it.
    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.folder.join("broker.log")
    }
}
