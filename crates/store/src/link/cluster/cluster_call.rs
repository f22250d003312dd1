//! A call to a cluster, with its redirections and retries.
//!
//! | reply | executed | next step |
//! |---|---|---|
//! | `MOVED` | no | send to the node in the reply, and read the topology |
//! | `ASK` | no | send once to the node in the reply, behind `ASKING` |
//! | `TRYAGAIN`, `CLUSTERDOWN`, `LOADING`, `MASTERDOWN` | no | pause, then send again |
//! | any other, or none | perhaps | return it; the call is not sent again |

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value};
use tokio::time::{Instant, sleep};

use super::Cluster;
use crate::link::connection::RedisConnection;
use crate::link::host_port::HostPort;
use crate::link::server::StoreServer;
use crate::link::waits::FAREWELL;

/// Pause before a call is sent again: first and maximum. Large calls are sent less often.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(80);
const PAUSE_MAX_OF_LARGE: Duration = Duration::from_millis(500);
/// Number of consecutive redirections without a pause. More of them mean that the nodes do not agree yet.
const REDIRECTIONS_AT_ONCE: u32 = 3;

/// A call to the server that has its key.
pub(crate) struct ClusterCall {
    cluster: Arc<Cluster>,
    slot: u16,
    /// The server to which the call was sent last. A missing script is loaded there.
    at: Option<Arc<StoreServer>>,
    /// Whether it uses the connection for large transfers.
    pub(crate) is_large: bool,
    /// Since when the call waits for its slot.
    waits_since: Option<Instant>,
    /// How long it may wait for its slot.
    pub(crate) patience: Duration,
}

/// Where to send a call next.
enum NextStep {
    There(HostPort),
    ThereAsking(HostPort),
    AgainLater,
}

/// A command, or several commands in one pipeline.
#[derive(Clone, Copy)]
enum CallCommands<'a> {
    Command(&'a Cmd),
    Commands {
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    },
}

impl CallCommands<'_> {
    /// Whether it can be sent behind `ASKING`, which applies to one command only.
    const fn can_be_asked(self) -> bool {
        matches!(self, Self::Command(_))
    }

    /// Sends it and returns the replies. An error is the error of the connection, of a single command, or of the last
    /// command of several if it was not executed.
    async fn send_over(
        self,
        redis_connection: &RedisConnection,
        is_asking: bool,
    ) -> RedisResult<Vec<Value>> {
        match self {
            Self::Command(command) if is_asking => {
                let mut both = redis::pipe();
                both.cmd("ASKING");
                both.add_command(command.clone());
                let mut answers = redis_connection.send_all(&both, 0, 2).await?;
                let answer = answers.pop().unwrap_or(Value::Nil);
                Ok(vec![answer.extract_error()?])
            }
            Self::Command(command) => {
                let answer = redis_connection.send(command).await?;
                Ok(vec![answer.extract_error()?])
            }
            Self::Commands {
                commands,
                offset,
                count,
            } => {
                let answers = redis_connection.send_all(commands, offset, count).await?;
                match answers.last() {
                    Some(Value::ServerError(error)) if is_retryable(error.kind()) => {
                        Err(error.clone().into())
                    }
                    _ => Ok(answers),
                }
            }
        }
    }
}

impl ClusterCall {
    /// A call on a key of this slot. It may wait up to `patience` while the slot moves or has no primary.
    pub(super) fn new(cluster: Arc<Cluster>, slot: u16, patience: Duration) -> Self {
        Self {
            at: cluster.server_of(slot),
            cluster,
            slot,
            is_large: false,
            waits_since: None,
            patience,
        }
    }

    /// The server to which the call was sent last.
    pub(crate) const fn server(&self) -> Option<&Arc<StoreServer>> {
        self.at.as_ref()
    }

    /// Sends a command until a node accepts it.
    pub(crate) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        let mut answers = self.carry(CallCommands::Command(command)).await?;
        Ok(answers.pop().unwrap_or(Value::Nil))
    }

    /// Sends commands on keys of one slot in one pipeline, until a node accepts the last of them. The others may be
    /// sent and executed several times.
    pub(crate) async fn send_all(
        &mut self,
        commands: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        let piece = CallCommands::Commands {
            commands,
            offset,
            count,
        };
        self.carry(piece).await
    }

    async fn carry(&mut self, piece: CallCommands<'_>) -> RedisResult<Vec<Value>> {
        let mut redirections = 0;
        let mut pause = PAUSE_MIN;
        let mut is_asking = false;
        loop {
            let error = match self.attempt(piece, is_asking).await {
                Ok(answers) => return Ok(answers),
                Err(error) => error,
            };
            is_asking = false;
            match self.next(&error) {
                None => return Err(error),
                Some(NextStep::There(host_port)) => {
                    self.cluster.refresh();
                    self.at = self.node(&host_port).await?;
                }
                Some(NextStep::ThereAsking(host_port)) if piece.can_be_asked() => {
                    self.at = self.node(&host_port).await?;
                    is_asking = true;
                }
                Some(NextStep::AgainLater | NextStep::ThereAsking(_)) => {
                    self.pause(&mut pause, error).await?;
                    self.at = self.cluster.server_of(self.slot);
                    redirections = 0;
                    continue;
                }
            }
            redirections += 1;
            if redirections > REDIRECTIONS_AT_ONCE {
                self.pause(&mut pause, error).await?;
            }
        }
    }

    /// Sends a piece once, and waits for its replies until the server leaves the cluster.
    async fn attempt(&self, piece: CallCommands<'_>, is_asking: bool) -> RedisResult<Vec<Value>> {
        let Some(server) = &self.at else {
            return Err(cluster_down("the slot has no reachable primary".to_owned()));
        };
        let redis_connection = server.connection_for(self.is_large);
        let left = async {
            self.cluster.lost_all_slots(server).await;
            sleep(FAREWELL).await;
        };
        tokio::select! {
            biased;
            answers = piece.send_over(redis_connection, is_asking) => answers,
            () = left => Err(RedisError::from(std::io::Error::new(
                std::io::ErrorKind::ConnectionAborted,
                "the server left the cluster before it replied",
            ))),
        }
    }

    /// The next step of a call that was not executed; `None` if it may have been executed, or must not be retried.
    fn next(&self, error: &RedisError) -> Option<NextStep> {
        let ErrorKind::Server(kind) = error.kind() else {
            return None;
        };
        if !is_retryable(Some(kind)) {
            return None;
        }
        let named = || {
            let (host_port, _) = error.redirect_node()?;
            HostPort::of_node(host_port, &self.at.as_deref()?.host_port()?)
        };
        match kind {
            ServerErrorKind::Moved => named().map(NextStep::There),
            ServerErrorKind::Ask => named().map(NextStep::ThereAsking),
            _ => Some(NextStep::AgainLater),
        }
    }

    /// Pauses; returns the error if the call has waited for its slot for too long.
    async fn pause(&mut self, pause: &mut Duration, error: RedisError) -> RedisResult<()> {
        let since = *self.waits_since.get_or_insert_with(Instant::now);
        if since.elapsed() + *pause > self.patience {
            return Err(error);
        }
        self.cluster.refresh();
        sleep(*pause).await;
        let pause_max = match self.is_large {
            true => PAUSE_MAX_OF_LARGE,
            false => PAUSE_MAX,
        };
        *pause = pause_max.min(*pause * 2);
        Ok(())
    }

    /// The node at an address from a redirection; `None` if it is not reachable. Then nothing was sent, and another
    /// node may have the slot soon.
    async fn node(&self, host_port: &HostPort) -> RedisResult<Option<Arc<StoreServer>>> {
        match self.cluster.nodes.at(host_port).await {
            Ok(server) => Ok(Some(server)),
            Err(error) if error.is_unreachable() => Ok(None),
            Err(error) => Err(cluster_down(error.to_string())),
        }
    }
}

/// Whether a command with this error was not executed, and may be sent again.
const fn is_retryable(kind: Option<ServerErrorKind>) -> bool {
    matches!(
        kind,
        Some(
            ServerErrorKind::Moved
                | ServerErrorKind::Ask
                | ServerErrorKind::TryAgain
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::BusyLoading
                | ServerErrorKind::MasterDown
        )
    )
}

fn cluster_down(why: String) -> RedisError {
    let kind = ErrorKind::Server(ServerErrorKind::ClusterDown);
    RedisError::from((kind, "nothing was sent", why))
}
