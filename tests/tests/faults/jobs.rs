//! Many jobs with different delays and tries.

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use tidegate_testkit::QueueClient;

const BULK: usize = 64;
const DELAY_S_MAX: u64 = 3;
const TRIES_MAX: u64 = 3;

/// The jobs of one publish request: they share their parameters.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The numbers of its jobs, which are their bodies too.
    pub(crate) numbers: Vec<usize>,
    pub(crate) queue: usize,
    pub(crate) delay_s: u64,
    pub(crate) tries: u64,
}

/// Draws the parameters of this many jobs over this many queues.
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
    /// Publishes the batch and returns the ids.
    pub(crate) async fn publish(&self, queues: &[QueueClient]) -> Vec<String> {
        let bodies: Vec<String> = self.numbers.iter().map(usize::to_string).collect();
        let publish = queues[self.queue].publish_bulk(&bodies);
        let publish = publish.delay_s(self.delay_s).tries(self.tries).ttl_s(0);
        publish.ids().await
    }
}

/// Queues of one namespace, enough of them to be in many buckets.
pub(crate) fn queues(first: &QueueClient, count: usize) -> Vec<QueueClient> {
    (0..count)
        .map(|number| first.sibling(&format!("queue-{number}")))
        .collect()
}

pub(crate) fn names(queues: &[QueueClient]) -> Vec<&str> {
    queues.iter().map(QueueClient::name).collect()
}
