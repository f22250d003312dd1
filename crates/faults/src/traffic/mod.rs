//! Live clients: good ones, careless ones, and some that hang up.
//!
//! | client | does |
//! |---|---|
//! | [`producer`] | publishes, cancels, republishes; some give up after 1 s and publish the same again as another job |
//! | [`consumer`] | consumes and acks, or crashes, is slow, hangs up |
//! | [`ballast`] | publishes many jobs that are due later, so that one bucket is large |
//! | [`operator`] | respawns, purges and peeks |
//! | [`ordered`] | publishes some jobs to a queue of its own, then consumes them |
//! | [`producer`], [`consumer`] of the direct queue | the same, without a proxy between them and the APIs |
//! | [`short_lived`] | uses a queue for some seconds and leaves or purges it |
//!
//! Most queues have consumers that poll all the time: there a job that comes late was late. Those of a few queues hang up at
//! any moment of a poll; whether such a poll took a job, no client can tell.

mod answers;
mod ballast;
mod client;
mod consumer;
mod draw;
mod operator;
mod ordered;
mod payload;
mod producer;
mod short_lived;

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tidegate_testkit::Queue;
use tokio::task::JoinHandle;

use crate::history::RateLimit;
use crate::plan::Plan;
use crate::recorder::Recorder;
use ballast::Ballast;
pub(crate) use client::Client;
use consumer::{Consumer, Habit};
use operator::Operator;
use ordered::Ordered;
use producer::Producer;
use short_lived::ShortLived;

/// Queues that live as long as the run.
pub(crate) const QUEUES: u16 = 16;
/// Of those, the ones whose consumers hang up.
const ROUGH: std::ops::Range<u16> = 8..12;
/// Of those, the ones whose ready and dead jobs are purged.
const PURGED: [u16; 2] = [12, 13];
/// Of those, the ones that are given several lanes. The others are FIFO throughout.
pub(crate) const LANED: [u16; 6] = [1, 3, 5, 7, 9, 13];
/// Of those, the ones for tokens with a rate limit and for tokens that are revoked.
pub(crate) const LIMITED_QUEUE: u16 = 14;
const GUEST_QUEUE: u16 = 15;
/// Of those, the one with many jobs.
const LARGE_QUEUE: u16 = 6;
/// Has one client, which watches its order. Beside the others.
const ORDERED_QUEUE: u16 = QUEUES;
/// The queue of the clients between whom and the APIs there is no proxy.
const DIRECT_QUEUE: u16 = ORDERED_QUEUE + 1;
/// The number of the first queue that does not live as long as the run.
const FIRST_SHORT_LIVED: u16 = 1000;
const SHORT_LIVED_MAX: u16 = 24;

/// A token with a rate limit.
pub(crate) const LIMIT: RateLimit = RateLimit {
    token: 1,
    publishes: 5,
    consumes: 4,
    window: 1_000_000,
};
/// The first token that is revoked.
pub(crate) const FIRST_GUEST: u16 = 2;
const GUESTS: usize = 4;
/// For each producer: consumers that are busy with a job ask for no other.
const DIRECT_CONSUMERS: usize = 4;
const IMPATIENCE: Duration = Duration::from_secs(1);

/// The name of a queue.
pub(crate) fn queue_name(number: u16) -> String {
    format!("q{number}")
}

/// The number of the queue of this name.
fn queue_number(name: &str) -> Option<u16> {
    name.strip_prefix('q')?.parse().ok()
}

/// All queues that a run may use.
pub(crate) fn all_queues() -> impl Iterator<Item = u16> + Clone {
    (0..=DIRECT_QUEUE).chain(FIRST_SHORT_LIVED..FIRST_SHORT_LIVED + SHORT_LIVED_MAX)
}

/// The ways of clients to the APIs.
#[derive(Debug)]
pub(crate) struct Doors {
    /// Through a proxy each.
    pub(crate) usual: Vec<Queue>,
    /// Straight to each API.
    pub(crate) direct: Vec<Queue>,
}

/// The tokens of a run, beside that of most clients.
#[derive(Debug, Clone)]
pub(crate) struct Tokens {
    /// The one with a rate limit.
    pub(crate) limited: String,
    /// The first one that is revoked.
    pub(crate) guest: String,
}

/// A job that was published a short time ago.
#[derive(Debug, Clone)]
struct Recent {
    queue: u16,
    id: String,
    number: u64,
}

/// What all clients of a run share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) recorder: Recorder,
    /// The number and text of the token that guests use now.
    guest: Mutex<(u16, String)>,
    recent: Mutex<Vec<Recent>>,
    numbers: AtomicU64,
    short_lived: AtomicU16,
    publishing_ended: AtomicBool,
    ended: AtomicBool,
    /// Whether consumers do nothing but consume and ack, so that everything comes to its end.
    is_careful: AtomicBool,
}

/// All clients of a run.
#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) shared: Arc<Shared>,
    /// Clients that end when publishing ends; each returns the consumers that it started.
    producers: Vec<JoinHandle<Vec<JoinHandle<()>>>>,
    consumers: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// Starts them. Each client prefers one of the `doors`, and takes another where that one fails.
    pub(crate) fn start(plan: &Plan, doors: &Doors, tokens: &Tokens) -> Self {
        let shared = Arc::new(Shared::new(tokens));
        let mut crew = Crew {
            doors: &doors.usual,
            shared: Arc::clone(&shared),
            seed: plan.seed,
            number: 0,
        };
        let (mut producers, mut consumers) = (Vec::new(), Vec::new());
        let queues: Vec<u16> = (0..QUEUES).collect();
        for number in 0..plan.producers {
            let (client, random) = crew.next();
            let client = match number % 3 {
                2 => client.patient_for(IMPATIENCE),
                _ => client,
            };
            let producer = Producer::new(client, random, &queues);
            producers.push(tokio::spawn(producer.run()));
        }
        let (mut client, random) = crew.next();
        client.use_token(LIMIT.token, &tokens.limited);
        let limited = Producer::new(client, random, &[LIMITED_QUEUE]);
        producers.push(tokio::spawn(limited.run()));
        let (client, random) = crew.next();
        producers.push(tokio::spawn(Ballast::new(client, random).run()));
        let (client, random) = crew.next();
        producers.push(tokio::spawn(Operator::new(client, random).run()));
        let (client, random) = crew.next();
        producers.push(tokio::spawn(Ordered::new(client, random).run()));
        let (client, random) = crew.next();
        producers.push(tokio::spawn(ShortLived::new(client, random).run()));
        for number in 0..plan.consumers {
            let habit = match number % 3 {
                2 => Habit::Rough,
                _ => Habit::Calm,
            };
            let (client, random) = crew.next();
            consumers.push(tokio::spawn(Consumer::new(client, random, habit).run()));
        }
        let (mut client, random) = crew.next();
        client.use_token(LIMIT.token, &tokens.limited);
        let limited = Consumer::new(client, random, Habit::Limited);
        consumers.push(tokio::spawn(limited.run()));
        for _ in 0..GUESTS {
            let (client, random) = crew.next();
            let guest = Consumer::new(client, random, Habit::Guest);
            consumers.push(tokio::spawn(guest.run()));
        }
        crew.doors = &doors.direct;
        for _ in &doors.direct {
            let (client, random) = crew.next();
            let producer = Producer::new(client.direct(), random, &[DIRECT_QUEUE]);
            producers.push(tokio::spawn(producer.run()));
            for _ in 0..DIRECT_CONSUMERS {
                let (client, random) = crew.next();
                let consumer = Consumer::new(client.direct(), random, Habit::Of(DIRECT_QUEUE));
                consumers.push(tokio::spawn(consumer.run()));
            }
        }
        Self {
            shared,
            producers,
            consumers,
        }
    }

    /// Ends publishing, and has consumers be careful from now on.
    pub(crate) async fn calm_down(&mut self) {
        self.shared.is_careful.store(true, Ordering::Relaxed);
        self.shared.publishing_ended.store(true, Ordering::Relaxed);
        for started in ended(&mut self.producers).await {
            self.consumers.extend(started);
        }
    }

    /// Ends all clients.
    pub(crate) async fn end(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        ended(&mut self.consumers).await;
    }
}

async fn ended<T>(clients: &mut Vec<JoinHandle<T>>) -> Vec<T> {
    let mut all = Vec::new();
    for client in clients.drain(..) {
        let ended = client.await;
        all.push(ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())));
    }
    all
}

/// Numbers clients and their random choices.
struct Crew<'a> {
    doors: &'a [Queue],
    shared: Arc<Shared>,
    seed: u64,
    number: usize,
}

impl Crew<'_> {
    fn next(&mut self) -> (Client, StdRng) {
        let client = Client::new(self.doors, self.number, Arc::clone(&self.shared));
        self.number += 1;
        let seed = self.seed.wrapping_add(self.number as u64);
        (client, StdRng::seed_from_u64(seed.rotate_left(32)))
    }
}

impl Shared {
    fn new(tokens: &Tokens) -> Self {
        Self {
            recorder: Recorder::default(),
            guest: Mutex::new((FIRST_GUEST, tokens.guest.clone())),
            recent: Mutex::default(),
            numbers: AtomicU64::new(0),
            short_lived: AtomicU16::new(0),
            publishing_ended: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            is_careful: AtomicBool::new(false),
        }
    }

    /// The number and text of the token that guests use.
    pub(crate) fn guest(&self) -> (u16, String) {
        locked(&self.guest).clone()
    }

    /// Gives guests another token.
    pub(crate) fn set_guest(&self, number: u16, token: String) {
        *locked(&self.guest) = (number, token);
    }

    /// The queues that there have been, those that do not live as long as the run included.
    pub(crate) fn queues(&self) -> impl Iterator<Item = u16> + Clone + use<> {
        let short_lived = self.short_lived.load(Ordering::Relaxed);
        (0..=DIRECT_QUEUE).chain(FIRST_SHORT_LIVED..FIRST_SHORT_LIVED + short_lived)
    }

    /// A queue that no client has used, unless there have been enough.
    fn next_queue(&self) -> Option<u16> {
        let taken = self.short_lived.fetch_add(1, Ordering::Relaxed);
        if taken >= SHORT_LIVED_MAX {
            self.short_lived.store(SHORT_LIVED_MAX, Ordering::Relaxed);
            return None;
        }
        Some(FIRST_SHORT_LIVED + taken)
    }

    fn remember(&self, recent: Recent) {
        const REMEMBERED: usize = 64;
        let mut all = locked(&self.recent);
        if all.len() == REMEMBERED {
            all.remove(0);
        }
        all.push(recent);
    }

    fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn is_publishing_over(&self) -> bool {
        self.publishing_ended.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    fn is_careful(&self) -> bool {
        self.is_careful.load(Ordering::Relaxed)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
