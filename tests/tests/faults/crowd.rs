//! Many consumers behind two APIs, and what they saw of each job.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tidegate_testkit::{Delivery, Queue, eventually};
use tokio::task::JoinHandle;

use crate::jobs::names;

const ACKED_LIMIT: Duration = Duration::from_secs(60);

/// Which jobs came and which are acked.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The tries that each job had left when it came last.
    pub(crate) tries_left: HashMap<String, u64>,
    /// Jobs that came more than once.
    pub(crate) doubled: usize,
    pub(crate) acked: HashSet<String>,
    /// Requests that were sent and got no answer.
    pub(crate) cut: usize,
}

impl Seen {
    fn delivered(&mut self, job: &Delivery) {
        let before = self.tries_left.insert(job.id.clone(), job.remain_tries);
        self.doubled += usize::from(before.is_some());
        assert!(
            before.is_none_or(|before| job.remain_tries < before),
            "{job:?} moved twice"
        );
    }
}

/// Consumers that work until told to stop.
#[derive(Debug)]
pub(crate) struct Crowd {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Crowd {
    /// Starts so many consumers of these queues, given as each of two APIs has them.
    pub(crate) fn start(count: usize, queues: &[Vec<Queue>; 2]) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
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

    /// What they have seen so far.
    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    /// Waits until that many jobs are acked.
    pub(crate) async fn until_acked(&self, count: usize) {
        let acked = async || match self.seen().acked.len() {
            acked if acked >= count => Ok(()),
            acked => Err(acked),
        };
        let what = format!("{count} jobs are acked");
        eventually(&what, ACKED_LIMIT, acked).await;
    }

    /// Lets every consumer finish what it has.
    pub(crate) async fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks.drain(..) {
            task.await.unwrap();
        }
    }
}

struct Consumer {
    number: usize,
    queues: [Vec<Queue>; 2],
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
}

impl Consumer {
    /// Half of the consumers prefer either API; where one does not answer the other is asked.
    async fn run(self) {
        let clients = [self.queues[0][0].apart(), self.queues[1][0].apart()];
        let mut names = names(&self.queues[0]);
        let rotation = self.number % names.len();
        names.rotate_left(rotation);
        let mut choice = self.number % 2;
        while !self.stop.load(Ordering::Relaxed) {
            let consume = clients[choice].consume_of(&names).ttr_s(2).timeout_s(1);
            let answer = match consume.send().await {
                Ok(answer) => answer,
                Err(error) => {
                    self.note_cut(&error);
                    choice = 1 - choice;
                    continue;
                }
            };
            for job in Delivery::all(&answer) {
                self.seen.lock().unwrap().delivered(&job);
                self.ack(&clients, &mut choice, &job).await;
                self.seen.lock().unwrap().acked.insert(job.id);
            }
            choice = self.number % 2;
        }
    }

    async fn ack(&self, clients: &[Queue; 2], choice: &mut usize, job: &Delivery) {
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

    /// A request that was sent and got no answer. Those that nobody listened to say nothing.
    fn note_cut(&self, error: &reqwest::Error) {
        if !error.is_connect() {
            self.seen.lock().unwrap().cut += 1;
        }
    }
}
