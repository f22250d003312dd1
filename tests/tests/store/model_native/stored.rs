//! All that Redis has of the jobs of a bucket, and its comparison with the model.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use redis::FromRedisValue;
use tidegate_core::codec::{RecordFlags, RecordParts};
use tidegate_core::{Failures, Job, JobId, JobState};

use super::cold::FrozenPayloads;
use super::oracle::{JobVersion, ModelJob, NativeModel};

const PREFIX: &str = "tg:0:{8209}:";

/// Returns records with what belongs to them, the index of keys, and the counts and lists of queues.
const DUMP: &str = r"
local prefix, call = KEYS[1], redis.call
local records, index, queues = {}, {}, {}
for _, chunk in ipairs(call('KEYS', prefix .. 'c:*')) do
  local fields = call('HGETALL', chunk)
  for i = 1, #fields, 2 do
    local number = string.match(chunk, '%d+$') .. fields[i]
    for _, value in ipairs({ number, fields[i + 1], call('GET', prefix .. 'body:' .. number) or '',
      call('GET', prefix .. 'next:' .. number) or '', call('GET', prefix .. 'next_body:' .. number) or '',
      call('LLEN', prefix .. 'log:' .. number) }) do
      records[#records + 1] = value
    end
  end
end
for _, shard in ipairs(call('KEYS', prefix .. 'k:*')) do
  for _, value in ipairs(call('HGETALL', shard)) do index[#index + 1] = value end
end
local names = call('HGETALL', prefix .. 'queues')
for i = 1, #names, 2 do
  local queue = string.match(names[i + 1], '%d+')
  if names[i] ~= '#' then
    local lines = { call('LRANGE', prefix .. 'ready:' .. queue, 0, -1) }
    for priority = 1, 4 do
      lines[priority + 1] = call('LRANGE', prefix .. 'ready:' .. queue .. ':' .. priority, 0, -1)
    end
    for _, value in ipairs({ names[i],
      call('HMGET', prefix .. 'q:' .. queue, 'delayed', 'ready', 'leased', 'dead', 'done', 'taken'), lines,
      call('LRANGE', prefix .. 'dead:' .. queue, 0, -1) }) do
      queues[#queues + 1] = value
    end
  end
end
return { records, index, queues }
";

type RecordRow = (u64, Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>, usize);
type QueueRow = (String, Vec<Option<u64>>, Vec<Vec<u64>>, Vec<u64>);

/// What Redis has of a job.
#[derive(Debug)]
struct JobInRedis {
    parts: RecordParts,
    next: Option<RecordParts>,
    failures_logged: usize,
}

/// The counts of a queue, and its lists with their stale hints.
#[derive(Debug, Default, Clone)]
pub(super) struct QueueRows {
    counts: [u64; 5],
    /// How many jobs were taken by priority.
    pub(super) taken: u64,
    /// By priority.
    pub(super) ready: Vec<Vec<u64>>,
    pub(super) dead: Vec<u64>,
}

/// All that Redis has.
#[derive(Debug, Default)]
pub(super) struct Stored {
    jobs: BTreeMap<JobId, JobInRedis>,
    /// The hash of a key → job number.
    index: BTreeMap<Vec<u8>, u64>,
    queues: BTreeMap<String, QueueRows>,
}

fn parts(record: Vec<u8>, body: Vec<u8>, frozen: &FrozenPayloads) -> RecordParts {
    let mut parts = RecordParts::split(&Bytes::from(record)).unwrap();
    let is_outside = parts.header.flags.has(RecordFlags::BODY_OUTSIDE);
    let is_body = is_outside && parts.cold.is_none();
    assert_eq!(is_body, !body.is_empty(), "{:?}", parts.header);
    if let Some(reference) = &parts.cold {
        parts.payload = frozen[reference].clone();
    } else if is_outside {
        assert!(parts.payload.is_empty(), "a payload twice: {parts:?}");
        parts.payload = body.into();
    }
    parts
}

impl Stored {
    pub(super) fn read(connection: &mut redis::Connection, frozen: &FrozenPayloads) -> Self {
        let mut eval = redis::cmd("EVAL");
        eval.arg(DUMP).arg(1).arg(PREFIX);
        let reply: Vec<redis::Value> = eval.query(connection).unwrap();
        let [records, index, queues] = reply.try_into().expect("three values");
        let records: Vec<RecordRow> = Vec::from_redis_value(records).unwrap();
        let index: Vec<(Vec<u8>, u64)> = Vec::from_redis_value(index).unwrap();
        let queues: Vec<QueueRow> = Vec::from_redis_value(queues).unwrap();
        let jobs =
            records
                .into_iter()
                .map(|(number, record, body, next, next_body, failures_logged)| {
                    let parts = parts(record, body, frozen);
                    let job = JobInRedis {
                        next: (!next.is_empty()).then(|| self::parts(next, next_body, frozen)),
                        failures_logged,
                        parts,
                    };
                    (job.parts.header.id(0, number), job)
                });
        let queues = queues.into_iter().map(|(name, counts, ready, dead)| {
            let mut counts: Vec<u64> = counts.into_iter().map(Option::unwrap_or_default).collect();
            let taken = counts.pop().expect("a number of jobs");
            let rows = QueueRows {
                counts: counts.try_into().expect("five states"),
                taken,
                ready,
                dead,
            };
            (name, rows)
        });
        Self {
            jobs: jobs.collect(),
            index: index.into_iter().collect(),
            queues: queues.collect(),
        }
    }

    pub(super) fn cold_jobs(&self) -> BTreeSet<JobId> {
        let cold = self.jobs.iter().filter(|(_, job)| job.parts.cold.is_some());
        cold.map(|(id, _)| *id).collect()
    }

    pub(super) fn queue(&self, name: &str) -> QueueRows {
        self.queues.get(name).cloned().unwrap_or_default()
    }

    /// Drops the expired jobs from the model that Redis has deleted, and compares all others.
    pub(super) fn compare(&self, model: &mut NativeModel, names: &[String]) {
        let now_ms = model.now_ms;
        let ids: Vec<JobId> = model.jobs.keys().copied().collect();
        for id in ids.into_iter().filter(|id| !self.jobs.contains_key(id)) {
            let job = &model.jobs[&id];
            assert!(job.is_expired(now_ms), "lost: {id} {job:?}");
            model.delete(id);
        }
        for (id, stored) in &self.jobs {
            let Some(job) = model.jobs.get(id) else {
                panic!("{id} should be gone: {stored:?}")
            };
            stored.compare(*id, job);
        }
        self.compare_index(model);
        for (queue, name) in names.iter().enumerate() {
            let counts = JobState::ALL.map(|state| {
                let jobs = model.jobs.values();
                jobs.filter(|job| job.queue == queue && job.state == state)
                    .count() as u64
            });
            assert_eq!(self.queue(name).counts, counts, "counts of {name}");
        }
    }

    /// Each key leads to its job, and the index has nothing else.
    fn compare_index(&self, model: &NativeModel) {
        let mut keys = BTreeSet::new();
        for (id, job) in &model.jobs {
            let Some(key) = job.key() else { continue };
            assert!(keys.insert(key.0.to_vec()), "two jobs with the key of {id}");
            let number = self.index.get(&key.0[..]);
            assert_eq!(number, Some(&id.number()), "{id} is not found by its key");
        }
        let indexed: BTreeSet<Vec<u8>> = self.index.keys().cloned().collect();
        assert_eq!(indexed, keys, "keys without a job");
    }
}

impl JobInRedis {
    fn compare(&self, id: JobId, job: &ModelJob) {
        let expected = Job {
            id,
            attributes: job.attributes().to_vec(),
            mark: false,
            body: job.body().clone(),
            extension: extension(&job.version),
            priority: job.version.priority,
            failures: job.is_native.then_some(Failures {
                failures: job.failures,
                losses: job.losses,
            }),
            cancel_requested: job.cancel_requested,
            has_history: !job.history.is_empty(),
            state: job.state,
            tries_left: job.tries,
            attempt: job.attempt,
            created_at_ms: id.created_at_ms(),
            due_at_ms: job.version.due_ms,
            run_at_ms: job.version.due_ms,
            expires_at_ms: job.version.expires_ms,
        };
        let stored = self.parts.decode(0, id.number());
        assert_eq!(stored.as_ref(), Ok(&expected));
        assert_eq!(self.failures_logged, job.history.len(), "history of {id}");
        let flags = self.parts.header.flags;
        let is_awaited = flags.has(RecordFlags::AWAITED);
        assert_eq!(is_awaited, job.is_awaited, "whether {id} is awaited");
        if job.state == JobState::Done {
            let has_result = flags.has(RecordFlags::BODY_OUTSIDE);
            assert_eq!(has_result, job.result.is_some(), "result of {id}");
        }
        let waits = flags.has(RecordFlags::NEXT_WAITS);
        assert_eq!((waits, self.next.is_some()), (job.next.is_some(), waits));
        if let (Some(stored), Some(next)) = (&self.next, &job.next) {
            let waiting = stored.decode(0, id.number()).unwrap();
            assert_eq!(waiting.id, id);
            let got = (waiting.due_at_ms, waiting.expires_at_ms);
            assert_eq!(got, (next.due_ms, next.expires_ms));
            assert_eq!(
                (waiting.body, waiting.extension),
                (next.body.clone(), extension(next))
            );
        }
    }
}

fn extension(version: &JobVersion) -> Option<Box<tidegate_core::RecordExtension>> {
    let extension = &version.extension;
    (!extension.is_empty()).then(|| Box::new(extension.clone()))
}

/// Each number once, at its first place.
fn once(hints: &[u64], numbers: &BTreeSet<u64>) -> Vec<u64> {
    let mut seen = BTreeSet::new();
    let hints = hints.iter().copied();
    hints
        .filter(|hint| numbers.contains(hint) && seen.insert(*hint))
        .collect()
}

/// Checks the order of a list: jobs that stay keep theirs, new ones are behind them, and those that were released
/// before them. A job with a stale hint may return to its former place.
pub(super) fn check_order(
    before: (&[u64], &BTreeSet<u64>),
    after: (&[u64], &BTreeSet<u64>),
    released: &BTreeSet<u64>,
) {
    let stay: BTreeSet<u64> = before.1.intersection(after.1).copied().collect();
    assert_eq!(once(before.0, &stay), once(after.0, &stay), "order changed");
    let all = once(after.0, after.1);
    let place = |number: &u64| all.iter().position(|other| other == number);
    let places: Vec<usize> = stay.iter().filter_map(place).collect();
    for number in after.1.difference(before.1) {
        let at = place(number).unwrap_or_else(|| panic!("job {number} is not listed"));
        if released.contains(number) {
            assert!(
                places.iter().all(|other| at < *other),
                "{number}: {after:?}"
            );
        } else if !before.0.contains(number) && released.is_empty() {
            assert!(
                places.iter().all(|other| at > *other),
                "{number}: {after:?}"
            );
        }
    }
}
