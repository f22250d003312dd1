//! Producers and consumers that continue during faults, and their results.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::answer::Answer;
use crate::eventually::eventually;
use crate::queue::{QueueClient, ReceivedJob, RequestError};
use crate::seed::print_figure;

/// Time limit of each wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// Results of the clients.
#[derive(Debug, Default)]
pub struct TrafficResults {
    /// The ids of jobs whose publish succeeded.
    pub published: HashSet<String>,
    /// The ids of jobs whose ack succeeded.
    pub acked: HashSet<String>,
    /// Number of failed requests.
    pub errors: usize,
    /// The longest time of a request.
    pub slowest: Duration,
    /// When the last successful publish began.
    pub last_success_began: Option<Instant>,
    /// When the last successful publish was answered.
    pub last_success: Option<Instant>,
    /// The longest time between two successful publishes.
    pub longest_gap: Duration,
}

/// Running clients.
#[derive(Debug, Default)]
pub struct BackgroundTraffic {
    shared: Arc<TrafficState>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct TrafficState {
    seen: Mutex<TrafficResults>,
    publishing_ended: AtomicBool,
    ended: AtomicBool,
}

impl BackgroundTraffic {
    /// Starts clients that publish without a pause, and clients that consume and ack, each over
    /// separate connections. A failed ack is repeated until it succeeds.
    #[must_use]
    pub fn start(queues: &[QueueClient], publishers: usize, consumers: usize) -> Self {
        let shared = Arc::new(TrafficState::default());
        let mut tasks = Vec::new();
        for queue in queues.iter().cycle().take(publishers) {
            tasks.push(tokio::spawn(
                Arc::clone(&shared).publish(queue.with_separate_connections()),
            ));
        }
        for queue in queues.iter().cycle().take(consumers) {
            tasks.push(tokio::spawn(
                Arc::clone(&shared).consume(queue.with_separate_connections()),
            ));
        }
        Self { shared, tasks }
    }

    /// Returns the results so far.
    pub fn results(&self) -> MutexGuard<'_, TrafficResults> {
        self.shared.seen()
    }

    /// Waits until `of` the results is at least `count`.
    ///
    /// # Panics
    /// If that takes more than 30 s.
    pub async fn wait_until(
        &self,
        what: &str,
        count: usize,
        of: impl Fn(&TrafficResults) -> usize,
    ) {
        let reached = async || match of(&self.results()) {
            now if now >= count => Ok(()),
            now => Err(now),
        };
        eventually(&format!("{what}: {count}"), PATIENCE, reached).await;
    }

    /// Waits until no publish has succeeded for this time.
    ///
    /// # Panics
    /// If that takes more than twice as long.
    pub async fn wait_until_failing_for(&self, time: Duration) {
        let silent = async || match self.results().last_success {
            Some(at) if at.elapsed() < time => Err(at.elapsed().as_millis()),
            _ => Ok(()),
        };
        eventually("the outage lasts", time * 2, silent).await;
    }

    /// Waits until a publish that began after `moment` has succeeded. Returns the time from `moment`
    /// to its answer.
    ///
    /// # Panics
    /// If that takes longer than `within`.
    pub async fn wait_for_publish_after(&self, moment: Instant, within: Duration) -> Duration {
        let recovered = async || {
            let seen = self.results();
            match (seen.last_success_began, seen.last_success) {
                (Some(began), Some(at)) if began > moment => Ok(at - moment),
                _ => Err("no success"),
            }
        };
        eventually("publishing works again", within, recovered).await
    }

    /// Stops the producers, and waits until each of these jobs is acked.
    ///
    /// # Panics
    /// If that takes more than 30 s.
    pub async fn wait_until_all_acked(&self, jobs: impl Fn(&TrafficResults) -> HashSet<String>) {
        self.shared.publishing_ended.store(true, Ordering::Relaxed);
        let all = async || {
            let seen = self.results();
            match jobs(&seen).difference(&seen.acked).count() {
                0 => Ok(()),
                left => Err(left),
            }
        };
        eventually("every published job is acked", PATIENCE, all).await;
    }

    /// Stops all clients.
    ///
    /// # Panics
    /// If a client has panicked because of an unexpected answer.
    pub async fn end(&mut self) {
        self.shared.publishing_ended.store(true, Ordering::Relaxed);
        self.shared.ended.store(true, Ordering::Relaxed);
        for task in self.tasks.drain(..) {
            task.await.expect("a client ends well");
        }
    }

    /// Prints the results.
    pub fn print(&self, name: &str) {
        let seen = self.results();
        print_figure(&format!(
            "{name}: {} published, {} acked, {} failed requests, slowest answer {:?}, longest time between \
             successful publishes {:?}",
            seen.published.len(),
            seen.acked.len(),
            seen.errors,
            seen.slowest,
            seen.longest_gap,
        ));
    }
}

impl TrafficState {
    fn seen(&self) -> MutexGuard<'_, TrafficResults> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn publish(self: Arc<Self>, queue: QueueClient) {
        while !self.publishing_ended.load(Ordering::Relaxed) {
            let began = Instant::now();
            let publish = queue.publish("x").tries(1000).ttl_s(0);
            let Some(answer) = self.send(&[201], publish.send()).await else {
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

    async fn consume(self: Arc<Self>, queue: QueueClient) {
        while !self.ended.load(Ordering::Relaxed) {
            let consume = queue.consume().ttr_s(2).timeout_s(1).count(2);
            let Some(answer) = self.send(&[200, 404], consume.send()).await else {
                continue;
            };
            for job in ReceivedJob::parse_all(&answer) {
                while self.send(&[204], queue.try_ack(&job.id)).await.is_none() {}
                self.seen().acked.insert(job.id);
            }
        }
    }

    /// Waits for an answer. Returns it if its status is in `good`; any other answer must be a plain
    /// 500.
    async fn send(
        &self,
        good: &[u16],
        request: impl Future<Output = Result<Answer, RequestError>>,
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
