//! Many clients at once, for a while.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use tidegate_testkit::{figure, random};
use tokio::time::sleep;

use crate::corpus::{self, Entry};
use crate::delivery::{Delivery, deliver};
use crate::failure::{Case, report, report_suspects};
use crate::grammar;
use crate::mutate::mutate;
use crate::target::{Port, Target};
use crate::values::chance;
use crate::verdict::judge;
use crate::wire::{Response, find};

const CLIENTS: usize = 96;
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// How many cases of each client are remembered for the case that a daemon dies.
const REMEMBERED: usize = 3;
const IDS_MAX: usize = 64;

/// What must have been answered: whoever gets nothing but refusals tries nothing.
pub(crate) type Statuses = [(Port, &'static [u16]); 2];
pub(crate) const OF_A_GIVEN_CASE: Statuses = [(Port::Public, &[]), (Port::Admin, &[])];
pub(crate) const OF_THE_CORPUS: Statuses = [
    (
        Port::Public,
        &[100, 200, 201, 204, 301, 307, 400, 401, 404, 413, 414, 431],
    ),
    (Port::Admin, &[100, 200, 201, 204, 301, 400, 401, 404, 431]),
];
const OF_A_CAMPAIGN: Statuses = [
    (Port::Public, &[200, 201, 204, 400, 401, 404]),
    (Port::Admin, &[200, 201, 204, 301, 400, 401, 404]),
];

#[derive(Debug, Default)]
struct Seen {
    sent: u64,
    statuses: BTreeMap<(Port, u16), u64>,
    unanswered: u64,
    /// Hashes of them.
    request_ids: HashSet<u64>,
    lately: VecDeque<Case>,
}

impl Seen {
    /// Counts what came back; an id that was given twice is a fault.
    fn note(&mut self, port: Port, responses: &[Response]) -> Result<(), String> {
        self.sent += 1;
        self.unanswered += u64::from(responses.is_empty());
        for response in responses {
            *self.statuses.entry((port, response.status)).or_default() += 1;
            let id = response.header("x-request-id").map(hash);
            if id.is_some_and(|id| !self.request_ids.insert(id)) {
                return Err("a request id that was given before".to_owned());
            }
        }
        Ok(())
    }

    /// Shows what was seen, and fails if some status was not.
    fn tell(&self, expected: &Statuses) {
        figure(&format!(
            "{} connections; {} were closed or left without an answer",
            self.sent, self.unanswered
        ));
        for port in [Port::Public, Port::Admin] {
            let counts = self.statuses.iter().filter(|((of, _), _)| *of == port);
            let counts: Vec<String> = counts
                .map(|((_, status), count)| format!("{status}: {count}"))
                .collect();
            figure(&format!(
                "answers of the {} port: {}",
                port.name(),
                counts.join(", ")
            ));
        }
        for (port, statuses) in expected {
            for status in *statuses {
                let is_seen = self.statuses.contains_key(&(*port, *status));
                assert!(is_seen, "no answer {status} of the {} port", port.name());
            }
        }
    }
}

fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// Sends every entry in every delivery.
pub(crate) async fn replay(target: &Target, entries: Vec<Entry>, expected: &Statuses) {
    let seen = Mutex::new(Seen::default());
    let count = entries.len();
    let sending = entries
        .into_iter()
        .map(|entry| replay_entry(target, &seen, entry));
    join_all(sending).await;
    let seen = seen.into_inner().unwrap();
    figure(&format!("{count} entries of the corpus"));
    seen.tell(expected);
    if let Err(problem) = target.check_daemons() {
        report_suspects(&[], &problem);
    }
}

async fn replay_entry(target: &Target, seen: &Mutex<Seen>, entry: Entry) {
    let mut rng = random(&entry.name);
    let length = entry.bytes.len();
    let mut deliveries = vec![
        Delivery::Whole,
        Delivery::Half(length),
        Delivery::Leave(length),
    ];
    if length < 3000 {
        deliveries.push(Delivery::Bytes);
    }
    if may_be_patient(entry.port, &entry.bytes) {
        deliveries.push(Delivery::Patient);
    }
    let some = (0..12).map(|_| Delivery::random(&mut rng, length));
    deliveries.extend(some.filter(|it| *it != Delivery::Patient));
    for delivery in deliveries {
        let case = Case {
            name: entry.name.clone(),
            port: entry.port,
            bytes: entry.bytes.clone(),
            delivery,
        };
        send(target, seen, case).await;
        if chance(&mut rng, 20) {
            target.restore().await;
        }
    }
}

/// Whether the other side must answer or close the connection soon: it does not wait for a job, nor for
/// the rest of what an administrator has to say.
fn may_be_patient(port: Port, bytes: &[u8]) -> bool {
    port == Port::Public
        && bytes.len() < 100_000
        && find(bytes, b"imeout").is_none()
        && !bytes.contains(&b'%')
}

/// Sends a case; answers what came back.
async fn send(target: &Target, seen: &Mutex<Seen>, case: Case) -> Vec<Response> {
    let outcome = deliver(target.address(case.port), &case.bytes, &case.delivery).await;
    let judged = judge(case.port, &case.bytes, &outcome);
    let judged = judged.and_then(|responses| {
        let mut seen = seen.lock().unwrap();
        seen.note(case.port, &responses)?;
        Ok(responses)
    });
    match judged {
        Ok(responses) => {
            let mut seen = seen.lock().unwrap();
            seen.lately.push_back(case);
            if seen.lately.len() > CLIENTS * REMEMBERED {
                seen.lately.pop_front();
            }
            responses
        }
        Err(problem) => report(target, case, &problem).await,
    }
}

/// Generates, changes and sends for so long.
pub(crate) async fn run(target: &Target, time: Duration) {
    let entries = corpus::shipped();
    for entry in &entries {
        deliver(target.address(entry.port), &entry.bytes, &Delivery::Whole).await;
    }
    let others: Vec<Vec<u8>> = entries.into_iter().map(|entry| entry.bytes).collect();
    let before = target.resident_bytes();
    let seen = Mutex::new(Seen::default());
    let end = Instant::now() + time;
    let clients = (0..CLIENTS).map(|number| client(target, &seen, &others, number, end));
    tokio::join!(join_all(clients), watch(target, &seen, end));
    let seen = seen.into_inner().unwrap();
    seen.tell(&OF_A_CAMPAIGN);
    target.check_memory(before);
}

async fn client(
    target: &Target,
    seen: &Mutex<Seen>,
    others: &[Vec<u8>],
    number: usize,
    end: Instant,
) {
    let mut rng = random(&format!("client {number}"));
    let mut known: Vec<String> = Vec::new();
    let mut count = 0;
    while Instant::now() < end {
        count += 1;
        let mut case = generate(&mut rng, others, &known);
        case.name = format!("client {number}, case {count}");
        for response in send(target, seen, case).await {
            known.extend(ids_in(&response.body));
        }
        if known.len() > IDS_MAX {
            known.drain(..known.len() - IDS_MAX);
        }
    }
}

fn generate(rng: &mut StdRng, others: &[Vec<u8>], known: &[String]) -> Case {
    let port = match chance(rng, 75) {
        true => Port::Public,
        false => Port::Admin,
    };
    let mut bytes = match rng.random_range(0..100) {
        0..95 => grammar::stream(rng, port, known),
        _ => others.choose(rng).cloned().unwrap_or_default(),
    };
    if chance(rng, 25) {
        mutate(rng, &mut bytes, others);
    }
    let delivery = match Delivery::random(rng, bytes.len()) {
        Delivery::Patient if !may_be_patient(port, &bytes) => Delivery::Whole,
        delivery => delivery,
    };
    Case {
        name: String::new(),
        port,
        bytes,
        delivery,
    }
}

fn ids_in(body: &[u8]) -> Vec<String> {
    let Ok(json) = serde_json::from_slice::<serde_json::Value>(body) else {
        return Vec::new();
    };
    let one = json["job_id"].as_str().into_iter();
    let many = json["job_ids"].as_array().into_iter().flatten();
    let many = many.filter_map(|id| id.as_str()).take(2);
    one.chain(many).map(str::to_owned).collect()
}

/// Has an ordinary client go on, and looks after the daemons.
async fn watch(target: &Target, seen: &Mutex<Seen>, end: Instant) {
    while Instant::now() < end {
        target.round_trip().await;
        target.restore().await;
        target.tidy_up().await;
        if let Err(problem) = target.check_daemons() {
            let lately: Vec<Case> = seen.lock().unwrap().lately.iter().cloned().collect();
            report_suspects(&lately, &problem);
        }
        sleep(CHECK_INTERVAL).await;
    }
}
