//! Producers and consumers that go on while things break, and what they saw.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::answer::Answer;
use crate::eventually::eventually;
use crate::queue::{Delivery, NoAnswer, Queue};
use crate::seed::figure;

/// How long anything that is waited for may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// What clients saw so far.
#[derive(Debug, Default)]
pub struct Seen {
    /// The ids of jobs whose publishing was answered well.
    pub published: HashSet<String>,
    /// The ids of jobs whose ack was answered well.
    pub acked: HashSet<String>,
    /// Requests that were answered by a failure.
    pub errors: usize,
    /// The longest time that an answer took.
    pub slowest: Duration,
    /// When the last publishing that went well began.
    pub last_success_began: Option<Instant>,
    /// When the last publishing that went well was answered.
    pub last_success: Option<Instant>,
    /// The longest time from one publishing that went well to the next.
    pub longest_gap: Duration,
}

/// Clients at work.
#[derive(Debug, Default)]
pub struct Traffic {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    seen: Mutex<Seen>,
    publishing_ended: AtomicBool,
    ended: AtomicBool,
}

impl Traffic {
    /// Clients that publish to the queue without a pause and clients that consume and ack, each over
    /// connections of its own. An ack is repeated until it is answered well.
    #[must_use]
    pub fn start(queues: &[Queue], publishers: usize, consumers: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let mut tasks = Vec::new();
        for queue in queues.iter().cycle().take(publishers) {
            tasks.push(tokio::spawn(Arc::clone(&shared).publish(queue.apart())));
        }
        for queue in queues.iter().cycle().take(consumers) {
            tasks.push(tokio::spawn(Arc::clone(&shared).consume(queue.apart())));
        }
        Self { shared, tasks }
    }

    /// What was seen so far.
    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.shared.seen()
    }

    /// Waits until a count of what was seen is at least this.
    ///
    /// # Panics
    /// When that takes more than 30 s.
    pub async fn until(&self, what: &str, count: usize, of: impl Fn(&Seen) -> usize) {
        let reached = async || match of(&self.seen()) {
            now if now >= count => Ok(()),
            now => Err(now),
        };
        eventually(&format!("{what}: {count}"), PATIENCE, reached).await;
    }

    /// Waits until nothing was published for this time.
    ///
    /// # Panics
    /// When that takes more than twice as long.
    pub async fn until_silent_for(&self, time: Duration) {
        let silent = async || match self.seen().last_success {
            Some(at) if at.elapsed() < time => Err(at.elapsed().as_millis()),
            _ => Ok(()),
        };
        eventually("the outage lasts", time * 2, silent).await;
    }

    /// Waits until a job was published by a request that began after this moment, and answers how long
    /// after it that was.
    ///
    /// # Panics
    /// When that is not `within` this time.
    pub async fn until_published_after(&self, moment: Instant, within: Duration) -> Duration {
        let recovered = async || {
            let seen = self.seen();
            match (seen.last_success_began, seen.last_success) {
                (Some(began), Some(at)) if began > moment => Ok(at - moment),
                _ => Err("no success"),
            }
        };
        eventually("publishing works again", within, recovered).await
    }

    /// Ends publishing, and waits until each of these jobs is acked.
    ///
    /// # Panics
    /// When that takes more than 30 s.
    pub async fn until_all_acked(&self, jobs: impl Fn(&Seen) -> HashSet<String>) {
        self.shared.publishing_ended.store(true, Ordering::Relaxed);
        let all = async || {
            let seen = self.seen();
            match jobs(&seen).difference(&seen.acked).count() {
                0 => Ok(()),
                left => Err(left),
            }
        };
        eventually("every published job is acked", PATIENCE, all).await;
    }

    /// Ends all clients.
    ///
    /// # Panics
    /// When one of them met what it should not.
    pub async fn end(&mut self) {
        self.shared.publishing_ended.store(true, Ordering::Relaxed);
        self.shared.ended.store(true, Ordering::Relaxed);
        for task in self.tasks.drain(..) {
            task.await.expect("a client ends well");
        }
    }

    /// Shows what was seen.
    pub fn show(&self, name: &str) {
        let seen = self.seen();
        figure(&format!(
            "{name}: {} published, {} acked, {} failed requests, slowest answer {:?}, longest time without \
             a publishing that went well {:?}",
            seen.published.len(),
            seen.acked.len(),
            seen.errors,
            seen.slowest,
            seen.longest_gap,
        ));
    }
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn publish(self: Arc<Self>, queue: Queue) {
        while !self.publishing_ended.load(Ordering::Relaxed) {
            let began = Instant::now();
            let publish = queue.publish("x").tries(1000).ttl_s(0);
            let Some(answer) = self.ask(&[201], publish.send()).await else {
                continue;
            };
            let json = answer.json();
            let id = json["job_id"].as_str().expect("a job id").to_owned();
            let now = Instant::now();
            let mut seen = self.seen();
            seen.published.insert(id);
            let gap = seen.last_success.map_or(Duration::ZERO, |last| now - last);
            seen.longest_gap = seen.longest_gap.max(gap);
            seen.last_success = Some(now);
            seen.last_success_began = seen.last_success_began.max(Some(began));
        }
    }

    async fn consume(self: Arc<Self>, queue: Queue) {
        while !self.ended.load(Ordering::Relaxed) {
            let consume = queue.consume().ttr_s(2).timeout_s(1).count(2);
            let Some(answer) = self.ask(&[200, 404], consume.send()).await else {
                continue;
            };
            for job in Delivery::all(&answer) {
                while self.ask(&[204], queue.try_ack(&job.id)).await.is_none() {}
                self.seen().acked.insert(job.id);
            }
        }
    }

    /// Waits for an answer, which must come in time and be one of these or a plain failure.
    async fn ask(
        &self,
        good: &[u16],
        request: impl Future<Output = Result<Answer, NoAnswer>>,
    ) -> Option<Answer> {
        let begin = Instant::now();
        let answer = request.await.expect("every request is answered");
        let took = begin.elapsed();
        let mut seen = self.seen();
        seen.slowest = seen.slowest.max(took);
        if good.contains(&answer.status) {
            return Some(answer);
        }
        seen.errors += 1;
        assert_eq!(answer.expect(500).text(), r#"{"error":"internal error"}"#);
        None
    }
}
