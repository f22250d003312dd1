//! What clients saw and what was done to the world, by one clock.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::fault::Class;

/// A moment: µs since 1970 by the clock of this machine, which is Redis's clock as well.
pub type Moment = u64;

/// The moment that is now.
#[must_use]
pub fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| {
        u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
    })
}

/// From one moment to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// When it begins.
    pub from: Moment,
    /// When it ends.
    pub to: Moment,
}

impl Span {
    /// Whether the two have a moment in common.
    #[must_use]
    pub const fn meets(&self, other: &Self) -> bool {
        self.from <= other.to && other.from <= self.to
    }
}

/// Spans in the order of their beginnings, with those that meet made one.
pub(crate) fn joined(spans: impl Iterator<Item = Span>) -> Vec<Span> {
    let mut all: Vec<Span> = Vec::new();
    for span in spans {
        match all.last_mut() {
            Some(last) if last.meets(&span) => last.to = last.to.max(span.to),
            _ => all.push(span),
        }
    }
    all
}

/// A run, as far as it can be judged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// Every request of every client, in the order in which they ended.
    pub operations: Vec<Operation>,
    /// What was done to the world, in order.
    pub episodes: Vec<Episode>,
    /// Whether a publish was acknowledged only when all replicas had its jobs.
    pub is_replicated: bool,
    /// How late a job may be where nothing excuses it, in µs.
    pub bound: u64,
    /// When the machine was so busy that jobs may be late.
    pub busy: Vec<Span>,
    /// The numbers of the queues that may be given several lanes.
    pub laned: Vec<u16>,
    /// The rate limits of tokens; a token without one is not limited.
    pub limits: Vec<RateLimit>,
    /// When clients began.
    pub began: Moment,
    /// When everything was over.
    pub ended: Moment,
}

/// The largest bound with which a run says anything about lateness, in µs. A job that waits for a poll that its
/// consumer's API makes in case a message was lost is later than this by far.
const TELLING_BOUND_MAX: u64 = 1_000_000;

impl History {
    /// Whether the machine had time enough for a run whose jobs were not late to mean anything: the bound is at most 1 s,
    /// and the machine was busy for less than half of the run.
    #[must_use]
    pub fn proves_lateness(&self) -> bool {
        let busy: u64 = self.busy.iter().map(|span| span.to - span.from).sum();
        self.bound <= TELLING_BOUND_MAX && busy * 2 < self.ended.saturating_sub(self.began)
    }
}

/// What the requests of one token may do in a window of time. A publish or a republish that succeeds takes one of
/// `publishes`, a consume that is answered with jobs one of `consumes`. A failed request may take one, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimit {
    /// The number of the token: [`Operation::token`].
    pub token: u16,
    /// Publishes in a window; 0 = no limit.
    pub publishes: u64,
    /// Consumes in a window; 0 = no limit.
    pub consumes: u64,
    /// The length of a window, in µs. It begins with the first request that is counted in it.
    pub window: u64,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// The number of the token that it was sent with; 0 = the token that most clients have.
    #[serde(default)]
    pub token: u16,
    /// Whether there was no proxy between the client and the API.
    #[serde(default)]
    pub is_direct: bool,
    /// From just before it was sent to just after its answer was read, or given up.
    pub span: Span,
    /// What was asked for.
    pub request: Request,
    /// What came of it.
    pub outcome: Outcome,
}

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Publish these jobs, all or none.
    Publish {
        /// The number of the queue.
        queue: u16,
        /// The jobs.
        jobs: Vec<Terms>,
    },
    /// Consume from these queues.
    Consume {
        /// The numbers of the queues.
        queues: Vec<u16>,
        /// The lease of what is delivered, in µs.
        ttr: u64,
        /// The most jobs to deliver.
        count: u64,
    },
    /// Ack a job that was delivered.
    Ack {
        /// The number of the job.
        job: u64,
    },
    /// Delete a job that nobody needs any more.
    Cancel {
        /// The number of the job.
        job: u64,
    },
    /// Publish a job and delete another one in the same step, in whatever state that is. Outcome: `Published`.
    Republish {
        /// The number of the queue of both.
        queue: u16,
        /// The number of the job that is deleted.
        replaced: u64,
        /// The new job.
        job: Terms,
    },
    /// Show a job and leave it as it is. Outcome: `Shown`.
    Peek {
        /// The number of the queue.
        queue: u16,
        /// The number of the job, in whatever state; without one the oldest ready job of the queue.
        job: Option<u64>,
    },
    /// Show the oldest dead job of a queue. Outcome: `DeadLetter`.
    PeekDead {
        /// The number of the queue.
        queue: u16,
    },
    /// Delete the ready jobs of a queue. Outcome: `Deleted`.
    PurgeReady {
        /// The number of the queue.
        queue: u16,
    },
    /// Delete the oldest dead jobs of a queue. Outcome: `Deleted`.
    PurgeDead {
        /// The number of the queue.
        queue: u16,
        /// The most jobs to delete.
        limit: u64,
    },
    /// Make the oldest dead jobs of a queue ready, with one try each and without a time to live. Outcome: `Respawned`.
    Respawn {
        /// The number of the queue.
        queue: u16,
        /// The most jobs to respawn.
        limit: u64,
    },
    /// Delete a token. Outcome: `Deleted`.
    Revoke {
        /// The number of the token: [`Operation::token`].
        token: u16,
    },
}

impl Request {
    /// The queues that it names. An ack and a cancel name none here.
    #[must_use]
    pub fn queues(&self) -> &[u16] {
        match self {
            Self::Publish { queue, .. }
            | Self::Republish { queue, .. }
            | Self::Peek { queue, .. }
            | Self::PeekDead { queue }
            | Self::PurgeReady { queue }
            | Self::PurgeDead { queue, .. }
            | Self::Respawn { queue, .. } => std::slice::from_ref(queue),
            Self::Consume { queues, .. } => queues,
            Self::Ack { .. } | Self::Cancel { .. } | Self::Revoke { .. } => &[],
        }
    }
}

/// The terms of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Its number, unique in the run; its body begins with it.
    pub number: u64,
    /// Until it is consumable, in µs.
    pub delay: u64,
    /// Until it disappears, in µs; 0 = never.
    pub ttl: u64,
    /// How often it may be delivered.
    pub tries: u64,
    /// The length of its body.
    pub bytes: usize,
    /// Whether its body is bytes that are no text.
    #[serde(default)]
    pub is_binary: bool,
    /// How many attributes it has. Their names and values follow from its number.
    #[serde(default)]
    pub attributes: u8,
}

/// The status of a failure that says that the jobs are stored, and that it is not known whether replicas have them.
pub const NOT_CONFIRMED: u16 = 504;

/// Why there is no clear answer where the client did not wait for it.
pub const HUNG_UP: &str = "hung up";

/// What a client learnt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The jobs are stored, under these ids.
    Published(Vec<String>),
    /// These jobs are leased; none when there were none.
    Delivered(Vec<Delivered>),
    /// This job was shown; none when there was none.
    Shown(Option<Box<Delivered>>),
    /// The dead letter of a queue.
    DeadLetter {
        /// The id of the oldest dead job, if there is one.
        head: Option<String>,
        /// How many dead jobs there are.
        size: u64,
    },
    /// The job is gone; after a purge all jobs that it concerned, after a revocation the token.
    Deleted,
    /// So many dead jobs are ready.
    Respawned(u64),
    /// The answer was a failure, with this status: it may have been done or not.
    Failed(u16),
    /// The answer was a refusal, with this status: nothing was done.
    Refused(u16),
    /// Nobody listened: nothing was done.
    NotSent,
    /// It was sent and no answer came: it may have been done or not. Why, in words.
    Unknown(String),
}

impl Outcome {
    /// Whether nobody can tell what was done.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Unknown(_))
    }
}

/// A job as an answer shows it: in the hands of a consumer, or peeked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    /// Its number, when body and attributes are exactly what was published under that number.
    pub number: Option<u64>,
    /// Its id.
    pub id: String,
    /// The number of the queue that it came from.
    pub queue: u16,
    /// Deliveries left after this one. 0 where a job was peeked at by its id.
    pub tries_left: u64,
    /// When it was stored, by Redis's clock, cut to ms.
    pub created: Moment,
    /// From then to the beginning of its lease, or to the peek, by the same clock, in whole ms; here in µs.
    pub elapsed: u64,
}

impl Delivered {
    /// When its lease began, or when it was peeked at. Cut to ms.
    #[must_use]
    pub const fn reserved(&self) -> Moment {
        self.created + self.elapsed
    }
}

/// Something that was done to the world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Episode {
    /// Of which class it is.
    pub class: Class,
    /// To whom and how, in words.
    pub what: String,
    /// From its first to its last moment.
    pub span: Span,
    /// From its first moment until then it excuses that jobs are late. That may be before its end: others take over from
    /// a daemon that is away.
    pub excuses_until: Moment,
    /// What Redis acknowledged in this time may be lost: not because of Tidegate, but because it was set up so.
    pub may_lose: Option<Span>,
    /// Queues on servers that work: it excuses nothing there from a moment on.
    #[serde(default)]
    pub spared: Vec<u16>,
    /// That moment.
    #[serde(default)]
    pub spared_from: Moment,
}

impl Episode {
    /// The time in which it excuses that jobs are late.
    #[must_use]
    pub const fn excused(&self) -> Span {
        Span {
            from: self.span.from,
            to: self.excuses_until,
        }
    }

    /// The time in which it excuses that jobs of this queue are late.
    #[must_use]
    pub fn excused_for(&self, queue: u16) -> Span {
        let Span { from, to } = self.excused();
        let to = match self.spared.contains(&queue) {
            true => to.min(self.spared_from.max(from)),
            false => to,
        };
        Span { from, to }
    }

    /// Whether it excuses nothing about these queues from a moment on.
    #[must_use]
    pub fn spares(&self, queues: &[u16], from: Moment) -> bool {
        let is_spared = |queue| self.spared.contains(queue);
        !queues.is_empty() && queues.iter().all(is_spared) && from >= self.spared_from
    }

    /// Whether it was going on, or can still be felt, in a part of this time.
    #[must_use]
    pub const fn concerns(&self, span: &Span) -> bool {
        self.span.meets(span) || self.excused().meets(span)
    }
}
