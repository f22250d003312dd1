//! Many consumers of two APIs, and a record of their deliveries.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tidegate_testkit::{QueueClient, ReceivedJob, eventually_unless_stalled};
use tokio::task::JoinHandle;

use crate::jobs::names;

const ACK_STALL_LIMIT: Duration = Duration::from_secs(30);

/// The jobs that were delivered and acked.
#[derive(Debug, Default)]
pub(crate) struct SeenByConsumers {
    /// The tries that each job had left at its last delivery.
    pub(crate) tries_left: HashMap<String, u64>,
    /// Jobs that were delivered more than once.
    pub(crate) doubled: usize,
    pub(crate) acked: HashSet<String>,
    /// Requests that were sent and got no answer.
    pub(crate) cut: usize,
}

impl SeenByConsumers {
    fn delivered(&mut self, job: &ReceivedJob) {
        let before = self.tries_left.insert(job.id.clone(), job.remain_tries);
        self.doubled += usize::from(before.is_some());
        assert!(
            before.is_none_or(|before| job.remain_tries < before),
            "{job:?} moved twice"
        );
    }
}

/// Consumers that run until they are stopped.
#[derive(Debug)]
pub(crate) struct Crowd {
    seen: Arc<Mutex<SeenByConsumers>>,
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Crowd {
    /// Starts consumers of these queues: once for each of two APIs.
    pub(crate) fn start(count: usize, queues: &[Vec<QueueClient>; 2]) -> Self {
        let seen = Arc::new(Mutex::new(SeenByConsumers::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..count).map(|number| {
            let consumer = Consumer {
                number,
                queues: queues.clone(),
                seen: Arc::clone(&seen),
                stop: Arc::clone(&stop),
            };
            tokio::spawn(consumer.run())
        });
        Self {
            tasks: tasks.collect(),
            seen,
            stop,
        }
    }

    /// The record so far.
    pub(crate) fn seen(&self) -> MutexGuard<'_, SeenByConsumers> {
        self.seen.lock().unwrap()
    }

    /// Waits until that many jobs are acked.
    pub(crate) async fn until_acked(&self, count: usize) {
        let acked = async || match self.seen().acked.len() {
            acked if acked >= count => Ok(()),
            acked => Err(acked),
        };
        let what = format!("{count} jobs are acked");
        eventually_unless_stalled(&what, ACK_STALL_LIMIT, acked).await;
    }

    /// Stops the consumers. Each one first acks the jobs that it has.
    pub(crate) async fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks.drain(..) {
            task.await.unwrap();
        }
    }
}

struct Consumer {
    number: usize,
    queues: [Vec<QueueClient>; 2],
    seen: Arc<Mutex<SeenByConsumers>>,
    stop: Arc<AtomicBool>,
}

impl Consumer {
    /// Half of the consumers prefer each API; if it does not answer, the other one is asked.
    async fn run(self) {
        let clients = [
            self.queues[0][0].with_separate_connections(),
            self.queues[1][0].with_separate_connections(),
        ];
        let mut names = names(&self.queues[0]);
        let rotation = self.number % names.len();
        names.rotate_left(rotation);
        let mut choice = self.number % 2;
        while !self.stop.load(Ordering::Relaxed) {
            let consume = clients[choice].consume_from(&names).ttr_s(2).timeout_s(1);
            let answer = match consume.send().await {
                Ok(answer) => answer,
                Err(error) => {
                    self.note_cut(&error);
                    choice = 1 - choice;
                    continue;
                }
            };
            for job in ReceivedJob::parse_all(&answer) {
                self.seen.lock().unwrap().delivered(&job);
                self.ack(&clients, &mut choice, &job).await;
                self.seen.lock().unwrap().acked.insert(job.id);
            }
            choice = self.number % 2;
        }
    }

    async fn ack(&self, clients: &[QueueClient; 2], choice: &mut usize, job: &ReceivedJob) {
        loop {
            let queue = clients[*choice].sibling(&job.queue);
            match queue.try_ack(&job.id).await {
                Ok(answer) => {
                    answer.expect(204);
                    return;
                }
                Err(error) => {
                    self.note_cut(&error);
                    *choice = 1 - *choice;
                }
            }
        }
    }

    /// Counts a request that was sent and got no answer. A refused connection is not counted.
    fn note_cut(&self, error: &reqwest::Error) {
        if !error.is_connect() {
            self.seen.lock().unwrap().cut += 1;
        }
    }
}
