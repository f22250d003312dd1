//! Reads an atomic snapshot of each bucket.

use std::collections::{HashMap, HashSet};

use redis::aio::MultiplexedConnection;
use redis::{Script, Value};
use tidegate_core::codec::{RecordFlags, RecordHeader, RecordParts};
use tidegate_core::keys::{LAYOUT, ReadyLine, bucket_of_channel};
use tidegate_core::{FarSlot, GroupHash, SlotWidth};

use crate::redis_control::connect_to_redis;

const CHUNK: u64 = 100;

/// Returns the clock, then for each key of the bucket its kind, the rest of its name and its
/// contents. KEYS blocks Redis, so this is only for the small data sets of tests.
const DUMP: &str = r"
local prefix = ARGV[1]
local time = redis.call('TIME')
local reply = { time[1] * 1000 + math.floor(time[2] / 1000) }
local function dump(kind, read)
  for _, key in ipairs(redis.call('KEYS', prefix .. kind .. ':*')) do
    reply[#reply + 1] = kind
    reply[#reply + 1] = string.sub(key, #prefix + #kind + 2)
    reply[#reply + 1] = read(key)
  end
end
local function all_of_hash(key) return redis.call('HGETALL', key) end
local function all_of_list(key) return redis.call('LRANGE', key, 0, -1) end
local function all_of_sorted_set(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end
dump('c', all_of_hash)
dump('q', all_of_hash)
dump('ready', all_of_list)
dump('turns', all_of_sorted_set)
dump('running', all_of_hash)
dump('dead', all_of_list)
dump('far', all_of_list)
dump('near', all_of_sorted_set)
for _, kind in ipairs({ 'body', 'next', 'next_body', 'log' }) do dump(kind, function() return {} end) end
dump('k', all_of_hash)
dump('upload', function(key) return redis.call('PTTL', key) end)
reply[#reply + 1] = 'queues'
reply[#reply + 1] = ''
reply[#reply + 1] = all_of_hash(prefix .. 'queues')
for _, kind in ipairs({ 'due', 'slots', 'expiry' }) do
  reply[#reply + 1] = kind
  reply[#reply + 1] = ''
  reply[#reply + 1] = all_of_sorted_set(prefix .. kind)
end
return reply
";

/// One stored job.
#[derive(Debug)]
pub(super) struct RecordSnapshot {
    pub(super) number: u64,
    pub(super) header: RecordHeader,
    /// The list of ready jobs that it belongs to while it is ready.
    pub(super) line: Option<ReadyLine>,
    pub(super) group: Option<GroupHash>,
}

impl RecordSnapshot {
    pub(super) fn has_outside_body(&self) -> bool {
        let flags = self.header.flags;
        flags.has(RecordFlags::BODY_OUTSIDE) && !flags.has(RecordFlags::COLD)
    }

    pub(super) fn chunk(&self) -> u64 {
        self.number / CHUNK
    }
}

#[derive(Debug, Default)]
pub(super) struct BucketSnapshot {
    pub(super) number: u16,
    pub(super) now_ms: u64,
    pub(super) records: HashMap<u64, RecordSnapshot>,
    /// Queue number → field → value.
    pub(super) queues: HashMap<u32, HashMap<String, i64>>,
    /// The fields of the index of names: queues and their numbers, and how many queues each namespace has.
    pub(super) names: HashMap<String, String>,
    /// Queue number, line and job number of each entry.
    pub(super) ready: Vec<(u32, Option<ReadyLine>, u64)>,
    /// Queue number → group → number of its leased jobs.
    pub(super) running: HashMap<u32, HashMap<GroupHash, i64>>,
    /// Queue number and line of each turn.
    pub(super) turns: Vec<(u32, String)>,
    /// Queue number and job number of each entry.
    pub(super) dead: Vec<(u32, u64)>,
    /// Queue → job number and time (ms) of each timer.
    pub(super) near: HashMap<u32, Vec<(u64, u64)>>,
    /// Slot → job numbers.
    pub(super) far: HashMap<FarSlot, HashSet<u64>>,
    /// Queue → due time in ms; a negative value is its turn in the round-robin.
    pub(super) due: HashMap<u32, i64>,
    /// Slot → time in ms at which it is loaded.
    pub(super) slots: HashMap<FarSlot, u64>,
    pub(super) slot_width: SlotWidth,
    pub(super) bodies: HashSet<u64>,
    /// The jobs with a waiting version, with an outside payload of one, and with a history.
    pub(super) next: HashSet<u64>,
    pub(super) next_bodies: HashSet<u64>,
    pub(super) logs: HashSet<u64>,
    /// Job numbers in the index of keys.
    pub(super) keyed: HashSet<u64>,
    /// Name → time to live in ms.
    pub(super) uploads: HashMap<String, i64>,
    /// Chunk → time in ms of the next sweep.
    pub(super) expiry: HashMap<u64, u64>,
}

/// Reads every bucket that has been used.
pub(super) async fn read(url: &str) -> Vec<BucketSnapshot> {
    let client = redis::Client::open(url).expect("a redis url");
    let mut connection = connect_to_redis(&client).await.expect("redis answers");
    let stamped = slot_width_of_layout(&mut connection).await;
    let mut buckets = Vec::new();
    for (number, prefix) in used_buckets(&mut connection).await {
        let mut bucket = read_bucket(&mut connection, number, &prefix).await;
        bucket.slot_width = stamped.unwrap_or_else(|| bucket.slot_width_of_index());
        buckets.push(bucket);
    }
    buckets
}

/// Returns the width of slots from the layout stamp. On a cluster only one server has the stamp.
async fn slot_width_of_layout(connection: &mut MultiplexedConnection) -> Option<SlotWidth> {
    let mut get = redis::cmd("GET");
    let stamp: Option<String> = get.arg(LAYOUT).query_async(connection).await.ok()?;
    let stamp = stamp?;
    let (_, width) = stamp.split_once("slot_ms=")?;
    let width = width.split_whitespace().next()?;
    SlotWidth::new(width.parse().ok()?).ok()
}

/// Returns the used buckets with their key prefixes.
async fn used_buckets(connection: &mut MultiplexedConnection) -> Vec<(u16, String)> {
    let counters: Vec<String> = redis::cmd("KEYS")
        .arg("tg:*:{*}:seq")
        .query_async(connection)
        .await
        .expect("redis lists keys");
    let buckets = counters.iter().filter_map(|counter| {
        let prefix = counter.strip_suffix("seq")?;
        Some((bucket_of_channel(prefix)?, prefix.to_owned()))
    });
    buckets.collect()
}

async fn read_bucket(
    connection: &mut MultiplexedConnection,
    number: u16,
    prefix: &str,
) -> BucketSnapshot {
    let script = Script::new(DUMP);
    let reply: Vec<Value> = script
        .key(prefix)
        .arg(prefix)
        .invoke_async(connection)
        .await
        .expect("redis runs a script");
    let mut values = reply.into_iter();
    let mut next = || values.next();
    let mut bucket = BucketSnapshot {
        number,
        now_ms: next().and_then(parsed).expect("the clock"),
        ..BucketSnapshot::default()
    };
    while let (Some(kind), Some(name), Some(contents)) = (next(), next(), next()) {
        let (kind, name): (String, String) =
            (parsed(kind).expect("a kind"), parsed(name).expect("a name"));
        bucket.add(&kind, &name, contents);
    }
    bucket
}

impl BucketSnapshot {
    /// Derives the width from the index of slots.
    fn slot_width_of_index(&self) -> SlotWidth {
        let narrowest = SlotWidth::new(SlotWidth::MIN_MS).expect("a valid width");
        let widths = self.slots.iter().map(|(slot, at_ms)| {
            at_ms * u64::from(narrowest.ms()) / narrowest.load_at_ms(*slot).max(1)
        });
        let width = widths.min().and_then(|ms| u32::try_from(ms).ok());
        width
            .and_then(|ms| SlotWidth::new(ms).ok())
            .unwrap_or_default()
    }

    fn add(&mut self, kind: &str, name: &str, contents: Value) {
        match kind {
            "c" => self.add_chunk(number(name), pairs(contents)),
            "q" => {
                let counts = pairs::<String, String>(contents).into_iter();
                let counts = counts.filter_map(|(field, value)| Some((field, value.parse().ok()?)));
                self.queues.insert(number(name) as u32, counts.collect());
            }
            "ready" => {
                let queue = name.split(':').next().unwrap_or(name);
                let line = name.parse().ok();
                let hints = entries(queue, contents).into_iter();
                self.ready
                    .extend(hints.map(|(queue, number)| (queue, line, number)));
            }
            "running" => {
                let running = pairs::<String, i64>(contents).into_iter();
                let running =
                    running.map(|(group, leased)| (group.parse().expect("a group"), leased));
                self.running.insert(number(name) as u32, running.collect());
            }
            "turns" => {
                let lines = pairs::<String, f64>(contents).into_iter();
                let queue = number(name) as u32;
                self.turns.extend(lines.map(|(line, _)| (queue, line)));
            }
            "dead" => self.dead.extend(entries(name, contents)),
            "far" => {
                let numbers = parsed(contents).expect("job numbers");
                self.far.insert(slot(name), numbers);
            }
            "near" => drop(self.near.insert(number(name) as u32, pairs(contents))),
            "body" => drop(self.bodies.insert(number(name))),
            "next" => drop(self.next.insert(number(name))),
            "next_body" => drop(self.next_bodies.insert(number(name))),
            "log" => drop(self.logs.insert(number(name))),
            "k" => self.keyed.extend(numbers_in(contents)),
            "upload" => {
                let left_ms = parsed(contents).expect("a time to live");
                self.uploads.insert(name.to_owned(), left_ms);
            }
            "queues" => self.names = pairs(contents).into_iter().collect(),
            "due" => self.due = pairs(contents).into_iter().collect(),
            "slots" => {
                let slots = pairs::<String, u64>(contents).into_iter();
                self.slots = slots.map(|(name, at_ms)| (slot(&name), at_ms)).collect();
            }
            _ => self.expiry = pairs(contents).into_iter().collect(),
        }
    }

    fn add_chunk(&mut self, chunk: u64, fields: Vec<(u64, Vec<u8>)>) {
        for (field, bytes) in fields {
            let number = chunk * CHUNK + field;
            let parts = RecordParts::split(&bytes.into())
                .unwrap_or_else(|error| panic!("job {number} of bucket {}: {error}", self.number));
            let record = RecordSnapshot {
                number,
                line: parts.ready_line(),
                group: parts.group_hash(),
                header: parts.header,
            };
            self.records.insert(number, record);
        }
    }
}

fn entries(queue: &str, contents: Value) -> Vec<(u32, u64)> {
    let queue = number(queue) as u32;
    let numbers: Vec<i64> = parsed(contents).expect("job numbers");
    // A respawn crosses hints out with a sign.
    let hints = numbers
        .into_iter()
        .filter_map(|number| u64::try_from(number).ok());
    hints.map(|number| (queue, number)).collect()
}

fn pairs<A: redis::FromRedisValue, B: redis::FromRedisValue>(contents: Value) -> Vec<(A, B)> {
    parsed(contents).expect("pairs")
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number in a key")
}

fn slot(text: &str) -> FarSlot {
    text.parse().expect("a far slot")
}

fn parsed<T: redis::FromRedisValue>(value: Value) -> Option<T> {
    redis::from_redis_value(value).ok()
}

/// The job numbers in a hash of the index of keys, whose fields are no text.
fn numbers_in(contents: Value) -> Vec<u64> {
    let entries: Vec<(Vec<u8>, u64)> = parsed(contents).expect("hashes and job numbers");
    entries.into_iter().map(|(_, number)| number).collect()
}
