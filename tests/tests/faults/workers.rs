//! Consumers that ack some of their jobs and drop the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::RngExt;
use rand::rngs::StdRng;
use tidegate_testkit::{QueueClient, random};
use tokio::task::JoinHandle;

use crate::jobs::names;
use crate::tracker::Ledger;

const BATCH_MAX: u64 = 10;
const ACKED_PERCENT: u32 = 80;

/// Consumers that run until they are stopped.
#[derive(Debug)]
pub(crate) struct Workers {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Workers {
    pub(crate) fn start(
        test: &str,
        count: usize,
        queues: &[QueueClient],
        tracker: &Arc<Ledger>,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..count).map(|number| {
            let worker = FaultWorker {
                queues: queues.to_vec(),
                tracker: Arc::clone(tracker),
                stop: Arc::clone(&stop),
                random: random(&format!("{test}: worker {number}")),
            };
            tokio::spawn(worker.run())
        });
        Self {
            tasks: tasks.collect(),
            stop,
        }
    }

    /// Stops the workers. Each one first handles the jobs that it has.
    pub(crate) async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

struct FaultWorker {
    queues: Vec<QueueClient>,
    tracker: Arc<Ledger>,
    stop: Arc<AtomicBool>,
    random: StdRng,
}

impl FaultWorker {
    async fn run(mut self) {
        let any = self.queues[0].with_separate_connections();
        while !self.stop.load(Ordering::Relaxed) {
            let first = self.random.random_range(0..self.queues.len());
            let mut names = names(&self.queues);
            names.rotate_left(first);
            let consume = any.consume_from(&names).timeout_s(1);
            let consume = consume
                .count(self.random.random_range(1..=BATCH_MAX))
                .ttr_s(self.random.random_range(1..=2));
            let jobs = consume.jobs().await;
            let numbers: Vec<usize> = jobs.iter().map(|job| self.tracker.delivered(job)).collect();
            for (job, number) in jobs.iter().zip(numbers) {
                if self.random.random_range(0..100) < ACKED_PERCENT {
                    any.sibling(&job.queue).ack(&job.id).await;
                    self.tracker.acked(number);
                }
            }
        }
    }
}
