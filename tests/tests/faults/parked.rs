//! Consumers that wait for jobs over long polls, each on its own connection.

use std::time::{Duration, Instant};

use tidegate_testkit::{Answer, Daemon, QueueClient, RawHttp};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// A consumer that has sent its request.
#[derive(Debug)]
pub(crate) struct Parked(JoinHandle<(Option<Answer>, Instant, Duration)>);

/// The answer that a parked consumer got.
#[derive(Debug)]
pub(crate) struct ParkedResult {
    pub(crate) answer: Answer,
    pub(crate) at: Instant,
    pub(crate) waited: Duration,
}

impl Parked {
    /// Asks an API for a job of a queue, and waits up to `timeout_s` for it.
    pub(crate) async fn start(api: &Daemon, queue: &QueueClient, timeout_s: u64) -> Self {
        let mut http = RawHttp::connect(api.listen()).await;
        let token = [("X-Token".to_owned(), queue.token().to_owned())];
        let target = format!("{}?timeout={timeout_s}&ttr=600", queue.path());
        let began_at = Instant::now();
        http.request("GET", &target, &token, b"").await;
        Self(tokio::spawn(async move {
            // A test that fails stops the API. Only a test that waits for the answer reports that it is missing.
            let answer = http.answer().await;
            let answered_at = Instant::now();
            (answer, answered_at, answered_at - began_at)
        }))
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.0.is_finished()
    }

    pub(crate) async fn outcome(self) -> ParkedResult {
        let (answer, at, waited) = self.0.await.unwrap();
        let answer = answer.expect("a parked consumer is answered");
        ParkedResult { answer, at, waited }
    }
}

/// Parks `of_each` consumers of each queue, and waits until all of them wait.
pub(crate) async fn park(
    api: &Daemon,
    queues: &[QueueClient],
    of_each: usize,
    timeout_s: u64,
) -> Vec<Parked> {
    let mut parked = Vec::new();
    for queue in queues {
        for _ in 0..of_each {
            parked.push(Parked::start(api, queue, timeout_s).await);
        }
    }
    let waiting = api.wait_for_waiting_consumers(parked.len());
    let answered = async {
        loop {
            if let Some(at) = parked.iter().position(|consumer| !consumer.is_waiting()) {
                return at;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    let early = tokio::select! {
        () = waiting => return parked,
        at = answered => parked.swap_remove(at),
    };
    panic!("not parked: {:?}", early.outcome().await);
}
