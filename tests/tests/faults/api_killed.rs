//! An API and a pump are killed under many consumers.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::RngExt;
use tidegate_testkit::world::Totals;
use tidegate_testkit::{Delivery, Queue, RedisOptions, Stack, eventually, figure, random};

use crate::jobs::{names, queues};
use crate::turn;

const JOBS: usize = 20_000;
const BULK: usize = 64;
const QUEUES: usize = 8;
const CONSUMERS: usize = 64;
const KILLS: usize = 12;
const TRIES: u64 = 20;

/// Which jobs came and which are acked.
#[derive(Debug, Default)]
struct Seen {
    /// The tries that each job had left when it came last.
    tries_left: HashMap<String, u64>,
    /// Jobs that came more than once.
    doubled: usize,
    acked: HashSet<String>,
    /// Requests that were sent and got no answer.
    cut: usize,
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

type Shared = Arc<Mutex<Seen>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_killed_under_its_consumers_loses_no_job() {
    let _turn = turn().await;
    let stack = Stack::builder()
        .redis(RedisOptions::new().always_synced())
        .apis(2)
        .lease("500ms")
        .start()
        .await;
    let mut random = random("api killed");
    let here = queues(&stack.queue("first").await, QUEUES);
    let there: Vec<Queue> = here.iter().map(|queue| queue.at(stack.api(1))).collect();
    let seen = Shared::default();
    let stop = Arc::new(AtomicBool::new(false));
    let consumers: Vec<_> = (0..CONSUMERS)
        .map(|number| {
            let queues = [here.clone(), there.clone()];
            let (seen, stop) = (Arc::clone(&seen), Arc::clone(&stop));
            tokio::spawn(consume(number, queues, seen, stop))
        })
        .collect();
    let publishing = tokio::spawn(publish(there.clone()));

    // Each kill comes when a further part of the jobs is acked, so there is traffic around it.
    for kill in 0..KILLS {
        let part = JOBS * (kill + 1) / (KILLS + 2);
        until_acked(&seen, part).await;
        let moment = Duration::from_micros(random.random_range(0..20_000));
        tokio::time::sleep(moment).await;
        if kill % 3 == 2 {
            stack.pump(0).restart().await;
        } else {
            stack.api(0).kill();
            until_acked(&seen, part + JOBS / 100).await;
            stack.api(0).restart().await;
        }
    }
    let ids = publishing.await.unwrap();
    let begin = Instant::now();
    until_acked(&seen, JOBS).await;
    stop.store(true, Ordering::Relaxed);
    for consumer in consumers {
        consumer.await.unwrap();
    }
    judge(&seen, &ids);
    let nothing = async || match stack.totals().await {
        totals if totals == Totals::default() => Ok(()),
        totals => Err(format!("{totals:?}")),
    };
    eventually("nothing is left", Duration::from_secs(10), nothing).await;
    figure(&format!(
        "the last jobs were acked {:?} after the last was published",
        begin.elapsed()
    ));
    stack.finish().await;
}

async fn publish(queues: Vec<Queue>) -> Vec<String> {
    let bodies = vec!["1".to_owned(); BULK];
    let mut ids = Vec::new();
    while ids.len() < JOBS {
        let queue = &queues[ids.len() / BULK % QUEUES];
        let count = BULK.min(JOBS - ids.len());
        let bulk = queue.publish_bulk(&bodies[..count]).ttl_s(0).tries(TRIES);
        ids.extend(bulk.ids().await);
    }
    ids
}

/// Half of the consumers prefer either API; where one does not answer the other is asked.
async fn consume(number: usize, queues: [Vec<Queue>; 2], seen: Shared, stop: Arc<AtomicBool>) {
    let clients = [queues[0][0].apart(), queues[1][0].apart()];
    let mut names = names(&queues[0]);
    names.rotate_left(number % QUEUES);
    let mut choice = number % 2;
    while !stop.load(Ordering::Relaxed) {
        let consume = clients[choice].consume_of(&names).ttr_s(2).timeout_s(1);
        let answer = match consume.send().await {
            Ok(answer) => answer,
            Err(error) => {
                note_cut(&seen, &error);
                choice = 1 - choice;
                continue;
            }
        };
        for job in Delivery::all(&answer) {
            seen.lock().unwrap().delivered(&job);
            ack(&clients, &mut choice, &job, &seen).await;
            seen.lock().unwrap().acked.insert(job.id);
        }
        choice = number % 2;
    }
}

async fn ack(clients: &[Queue; 2], choice: &mut usize, job: &Delivery, seen: &Shared) {
    loop {
        let queue = clients[*choice].sibling(&job.queue);
        match queue.try_ack(&job.id).await {
            Ok(answer) => {
                answer.expect(204);
                return;
            }
            Err(error) => {
                note_cut(seen, &error);
                *choice = 1 - *choice;
            }
        }
    }
}

/// A request that was sent and got no answer. Those that nobody listened to say nothing.
fn note_cut(seen: &Shared, error: &reqwest::Error) {
    if !error.is_connect() {
        seen.lock().unwrap().cut += 1;
    }
}

async fn until_acked(seen: &Shared, count: usize) {
    let acked = async || match seen.lock().unwrap().acked.len() {
        acked if acked >= count => Ok(()),
        acked => Err(acked),
    };
    let what = format!("{count} jobs are acked");
    eventually(&what, Duration::from_secs(60), acked).await;
}

fn judge(seen: &Shared, ids: &[String]) {
    let seen = seen.lock().unwrap();
    assert_eq!(ids.len(), JOBS);
    for id in ids {
        assert!(seen.acked.contains(id), "{id} is lost");
    }
    assert_eq!(
        seen.tries_left.len(),
        JOBS,
        "jobs came that nobody published"
    );
    let on_the_way = seen.tries_left.values().filter(|left| **left < TRIES - 1);
    figure(&format!(
        "api killed: {JOBS} jobs, {} requests cut; {} jobs needed the end of a lease, {} came twice",
        seen.cut,
        on_the_way.count(),
        seen.doubled
    ));
    assert!(seen.cut > 0, "the kills hit nobody");
}
