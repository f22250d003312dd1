//! Many jobs of mixed fates.

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use tidegate_testkit::Queue;

const BULK: usize = 64;
const DELAY_S_MAX: u64 = 3;
const TRIES_MAX: u64 = 3;

/// Jobs that are published by one request: they share their terms.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The numbers of its jobs, which are their bodies too.
    pub(crate) numbers: Vec<usize>,
    pub(crate) queue: usize,
    pub(crate) delay_s: u64,
    pub(crate) tries: u64,
}

/// Draws the terms of so many jobs over so many queues.
pub(crate) fn draw(random: &mut StdRng, jobs: usize, queues: usize) -> Vec<Batch> {
    let numbers: Vec<usize> = (0..jobs).collect();
    let mut batches: Vec<Batch> = numbers
        .chunks(BULK)
        .map(|numbers| Batch {
            numbers: numbers.to_vec(),
            queue: random.random_range(0..queues),
            delay_s: random.random_range(0..=DELAY_S_MAX),
            tries: random.random_range(1..=TRIES_MAX),
        })
        .collect();
    batches.shuffle(random);
    batches
}

impl Batch {
    /// Publishes the batch; answers the ids.
    pub(crate) async fn publish(&self, queues: &[Queue]) -> Vec<String> {
        let bodies: Vec<String> = self.numbers.iter().map(usize::to_string).collect();
        let publish = queues[self.queue].publish_bulk(&bodies);
        let publish = publish.delay_s(self.delay_s).tries(self.tries).ttl_s(0);
        publish.ids().await
    }
}

/// Queues of one namespace, enough of them to lie in many buckets.
pub(crate) fn queues(first: &Queue, count: usize) -> Vec<Queue> {
    (0..count)
        .map(|number| first.sibling(&format!("queue-{number}")))
        .collect()
}

/// The names of queues.
pub(crate) fn names(queues: &[Queue]) -> Vec<&str> {
    queues.iter().map(Queue::name).collect()
}
