//! One call on its way through a cluster.
//!
//! | a node answers | the call was | then |
//! |---|---|---|
//! | `MOVED` | not carried out | it goes to the node that is named, and the follower looks |
//! | `ASK` | not carried out | it goes to the node that is named, this once, behind `ASKING` |
//! | `TRYAGAIN`, `CLUSTERDOWN`, `LOADING`, `MASTERDOWN` | not carried out | it waits for a moment and begins anew |
//! | anything else, or nothing | perhaps | that is the answer; nothing is sent twice |

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value};
use tokio::time::{Instant, sleep};

use super::slot::Slot;
use super::{Cluster, Place, Server};
use crate::StoreError;
use crate::link::FAREWELL;
use crate::link::line::Line;

/// How long to wait before a call begins anew: at first, and at most. What is large is sent less often.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(80);
const PAUSE_MAX_OF_LARGE: Duration = Duration::from_millis(500);
/// So many redirections in a row are followed at once. More mean that nodes do not agree yet.
const REDIRECTIONS_AT_ONCE: u32 = 3;

/// A call to whichever server has its key.
pub(crate) struct Passage {
    cluster: Arc<Cluster>,
    slot: Slot,
    /// Where the call was sent last. A script that the server lacks is loaded there.
    at: Option<Arc<Server>>,
    /// Whether it goes over the connection for large transfers.
    pub(crate) is_large: bool,
    /// Since when the call waits for a server that takes it.
    waits_since: Option<Instant>,
    /// How long it may.
    patience: Duration,
}

/// Where to send a call next.
enum Next {
    There(Place),
    ThereAsking(Place),
    AgainLater,
}

/// What is sent in one piece.
#[derive(Clone, Copy)]
enum Piece<'a> {
    Command(&'a Cmd),
    Commands {
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    },
}

impl Piece<'_> {
    /// `ASKING` counts for one command.
    const fn can_be_asked(self) -> bool {
        matches!(self, Self::Command(_))
    }

    /// The answers. An error is that of the connection, or of the last command.
    async fn over(self, line: &Line, is_asking: bool) -> RedisResult<Vec<Value>> {
        match self {
            Self::Command(command) if is_asking => {
                let mut both = redis::pipe();
                both.cmd("ASKING");
                both.add_command(command.clone());
                let mut answers = line.send_all(&both, 0, 2).await?;
                let answer = answers.pop().unwrap_or(Value::Nil);
                Ok(vec![answer.extract_error()?])
            }
            Self::Command(command) => {
                let answer = line.send(command).await?;
                Ok(vec![answer.extract_error()?])
            }
            Self::Commands {
                commands,
                offset,
                count,
            } => {
                let answers = line.send_all(commands, offset, count).await?;
                match answers.last() {
                    Some(Value::ServerError(error)) if is_put_off(error.kind()) => {
                        Err(error.clone().into())
                    }
                    _ => Ok(answers),
                }
            }
        }
    }
}

impl Passage {
    /// A call about a key of this slot, which may wait for so long as `patience` while the slot moves or
    /// has no primary.
    pub(super) fn new(cluster: Arc<Cluster>, slot: Slot, patience: Duration) -> Self {
        Self {
            at: cluster.server_of(slot),
            cluster,
            slot,
            is_large: false,
            waits_since: None,
            patience,
        }
    }

    /// Where the call was sent last.
    pub(crate) fn server(&self) -> Option<&Server> {
        self.at.as_deref()
    }

    /// The same, to be kept.
    pub(crate) fn into_server(self) -> Option<Arc<Server>> {
        self.at
    }

    /// Sends a command until a node takes it.
    pub(crate) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        let mut answers = self.carry(Piece::Command(command)).await?;
        Ok(answers.pop().unwrap_or(Value::Nil))
    }

    /// Sends commands about keys of one slot in one piece, until a node takes the last of them. Others may
    /// be sent, and carried out, several times.
    pub(crate) async fn send_all(
        &mut self,
        commands: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        let piece = Piece::Commands {
            commands,
            offset,
            count,
        };
        self.carry(piece).await
    }

    async fn carry(&mut self, piece: Piece<'_>) -> RedisResult<Vec<Value>> {
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
                Some(Next::There(place)) => {
                    self.cluster.look();
                    self.at = self.node(&place).await?;
                }
                Some(Next::ThereAsking(place)) if piece.can_be_asked() => {
                    self.at = self.node(&place).await?;
                    is_asking = true;
                }
                Some(Next::AgainLater | Next::ThereAsking(_)) => {
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

    /// Sends a piece once, and waits for its answer only while the server is one of the cluster's.
    async fn attempt(&self, piece: Piece<'_>, is_asking: bool) -> RedisResult<Vec<Value>> {
        let Some(server) = &self.at else {
            return Err(cluster_down(
                "the slot has no primary that can be reached".to_owned(),
            ));
        };
        let line = server.line(self.is_large);
        let left = async {
            self.cluster.left(server).await;
            sleep(FAREWELL).await;
        };
        tokio::select! {
            biased;
            answers = piece.over(line, is_asking) => answers,
            () = left => Err(RedisError::from(std::io::Error::new(
                std::io::ErrorKind::ConnectionAborted,
                "the server left the cluster before it had answered",
            ))),
        }
    }

    /// Where a call goes that was not carried out; `None` where it may have been, or will not be.
    fn next(&self, error: &RedisError) -> Option<Next> {
        let ErrorKind::Server(kind) = error.kind() else {
            return None;
        };
        if !is_put_off(Some(kind)) {
            return None;
        }
        let named = || {
            let (place, _) = error.redirect_node()?;
            Place::of_node(place, &self.at.as_deref()?.place()?)
        };
        match kind {
            ServerErrorKind::Moved => named().map(Next::There),
            ServerErrorKind::Ask => named().map(Next::ThereAsking),
            _ => Some(Next::AgainLater),
        }
    }

    /// Waits for a moment, unless the patience is used up; then the error is the answer.
    async fn pause(&mut self, pause: &mut Duration, error: RedisError) -> RedisResult<()> {
        let since = *self.waits_since.get_or_insert_with(Instant::now);
        if since.elapsed() + *pause > self.patience {
            return Err(error);
        }
        self.cluster.look();
        sleep(*pause).await;
        let pause_max = match self.is_large {
            true => PAUSE_MAX_OF_LARGE,
            false => PAUSE_MAX,
        };
        *pause = pause_max.min(*pause * 2);
        Ok(())
    }

    /// The node at a place that another one named. If it cannot be reached nothing was sent there, and
    /// somebody else may have the slot soon.
    async fn node(&self, place: &Place) -> RedisResult<Option<Arc<Server>>> {
        match self.cluster.nodes.at(place).await {
            Ok(server) => Ok(Some(server)),
            Err(StoreError::Unavailable {
                reason: crate::Unavailable::Away,
                ..
            }) => Ok(None),
            Err(error) => Err(cluster_down(error.to_string())),
        }
    }
}

/// Whether a server that says so has not carried a command out, and it may be sent again.
const fn is_put_off(kind: Option<ServerErrorKind>) -> bool {
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
