//! Many clients at once, for a while.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use tidegate_testkit::{print_figure, random};
use tokio::time::sleep;

use crate::corpus::{self, Entry};
use crate::delivery::{ByteDelivery, deliver};
use crate::failure::{FuzzCase, report, report_suspects};
use crate::grammar;
use crate::mutate::mutate;
use crate::target::{FuzzTarget, Port};
use crate::values::chance;
use crate::verdict::judge;
use crate::wire::{Response, find};

const CLIENTS: usize = 96;
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// How many cases of each client are kept to report them if a daemon dies.
const REMEMBERED: usize = 3;
const IDS_MAX: usize = 64;

/// The statuses that must occur: a campaign with nothing but refusals would test nothing.
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
struct CampaignTotals {
    sent: u64,
    statuses: BTreeMap<(Port, u16), u64>,
    unanswered: u64,
    request_ids: HashSet<u64>,
    lately: VecDeque<FuzzCase>,
}

impl CampaignTotals {
    /// Counts the answers; a request id that occurs twice is an error.
    fn note(&mut self, port: Port, responses: &[Response]) -> Result<(), String> {
        self.sent += 1;
        self.unanswered += u64::from(responses.is_empty());
        for response in responses {
            *self.statuses.entry((port, response.status)).or_default() += 1;
            let id = response.header("x-request-id").map(hash);
            if id.is_some_and(|id| !self.request_ids.insert(id)) {
                return Err("a request id that occurred before".to_owned());
            }
        }
        Ok(())
    }

    /// Prints the counts, and fails if an expected status is missing.
    fn tell(&self, expected: &Statuses) {
        print_figure(&format!(
            "{} connections; {} were closed or left without an answer",
            self.sent, self.unanswered
        ));
        for port in [Port::Public, Port::Admin] {
            let counts = self.statuses.iter().filter(|((of, _), _)| *of == port);
            let counts: Vec<String> = counts
                .map(|((_, status), count)| format!("{status}: {count}"))
                .collect();
            print_figure(&format!(
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
pub(crate) async fn replay(target: &FuzzTarget, entries: Vec<Entry>, expected: &Statuses) {
    let seen = Mutex::new(CampaignTotals::default());
    let count = entries.len();
    let sending = entries
        .into_iter()
        .map(|entry| replay_entry(target, &seen, entry));
    join_all(sending).await;
    let seen = seen.into_inner().unwrap();
    print_figure(&format!("{count} entries of the corpus"));
    seen.tell(expected);
    if let Err(problem) = target.check_daemons() {
        report_suspects(&[], &problem);
    }
}

async fn replay_entry(target: &FuzzTarget, seen: &Mutex<CampaignTotals>, entry: Entry) {
    let mut rng = random(&entry.name);
    let length = entry.bytes.len();
    let mut deliveries = vec![
        ByteDelivery::Awaited,
        ByteDelivery::Half(length),
        ByteDelivery::Leave(length),
    ];
    if length < 3000 {
        deliveries.push(ByteDelivery::Bytes);
    }
    if may_be_patient(entry.port, &entry.bytes) {
        deliveries.push(ByteDelivery::Patient);
    }
    let some = (0..12).map(|_| ByteDelivery::random(&mut rng, length));
    deliveries.extend(some.filter(|it| *it != ByteDelivery::Patient));
    for delivery in deliveries {
        let case = FuzzCase {
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

/// Whether the daemon must answer or close the connection soon: it waits neither for a job nor for the rest of a
/// request on the admin port.
fn may_be_patient(port: Port, bytes: &[u8]) -> bool {
    port == Port::Public
        && bytes.len() < 100_000
        && find(bytes, b"imeout").is_none()
        && !bytes.contains(&b'%')
}

/// Sends a case; returns the answers.
async fn send(target: &FuzzTarget, seen: &Mutex<CampaignTotals>, case: FuzzCase) -> Vec<Response> {
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

/// Generates, mutates and sends requests for this time.
pub(crate) async fn run(target: &FuzzTarget, time: Duration) {
    let entries = corpus::shipped();
    for entry in &entries {
        deliver(
            target.address(entry.port),
            &entry.bytes,
            &ByteDelivery::Whole,
        )
        .await;
    }
    let others: Vec<Vec<u8>> = entries.into_iter().map(|entry| entry.bytes).collect();
    let before = target.resident_bytes();
    let seen = Mutex::new(CampaignTotals::default());
    let end = Instant::now() + time;
    let clients = (0..CLIENTS).map(|number| client(target, &seen, &others, number, end));
    tokio::join!(join_all(clients), watch(target, &seen, end));
    let seen = seen.into_inner().unwrap();
    seen.tell(&OF_A_CAMPAIGN);
    target.check_memory(before);
}

async fn client(
    target: &FuzzTarget,
    seen: &Mutex<CampaignTotals>,
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

fn generate(rng: &mut StdRng, others: &[Vec<u8>], known: &[String]) -> FuzzCase {
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
    let delivery = match ByteDelivery::random(rng, bytes.len()) {
        ByteDelivery::Patient if !may_be_patient(port, &bytes) => ByteDelivery::Whole,
        delivery => delivery,
    };
    FuzzCase {
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

/// Runs an ordinary client, and checks the daemons.
async fn watch(target: &FuzzTarget, seen: &Mutex<CampaignTotals>, end: Instant) {
    while Instant::now() < end {
        target.round_trip().await;
        target.restore().await;
        target.tidy_up().await;
        if let Err(problem) = target.check_daemons() {
            let lately: Vec<FuzzCase> = seen.lock().unwrap().lately.iter().cloned().collect();
            report_suspects(&lately, &problem);
        }
        sleep(CHECK_INTERVAL).await;
    }
}
