//! The auditor: each kind of damage is made by hand in a real Redis, found, and repaired.

use std::time::Duration;

use tidegate_core::codec::HEADER_BYTES;
use tidegate_core::{JobId, NewJob, SlotWidth};
use tidegate_store::{AuditEvent, AuditFinding, AuditOptions, AuditSummary, Inconsistency, Store};
use tidegate_testkit::consistency;
use tokio::join;
use tokio::time::sleep;

use crate::audit_schedules::damage;
use crate::fixture::{START, StoreFixture, TOKEN, delayed, fixture, job};

const FAR_MS: u64 = 3_600_000;
const TTR_MS: u64 = 60_000;
/// Longer than any test.
const MEMBERSHIP_MS: u64 = 3_600_000;

/// A bucket with a job of each kind.
struct FilledBucket {
    fixture: StoreFixture,
    near: JobId,
    far: JobId,
    ready: JobId,
    leased: JobId,
    dead: JobId,
    large: JobId,
    expiring: JobId,
}

/// A body that cannot be compressed into a record.
fn large() -> String {
    let numbers = (1..2000_u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    numbers.map(|number| format!("{number:x}")).collect()
}

async fn filled_bucket() -> FilledBucket {
    let fixture = fixture().await;
    fixture
        .store
        .roster_join(0, TOKEN, MEMBERSHIP_MS)
        .await
        .unwrap();
    let publish = async |new: NewJob| fixture.publish(START, new).await;
    let dead = publish(job("dead")).await;
    assert_eq!(fixture.reserve(START, 1, 1).await, ["dead"]);
    assert_eq!(fixture.move_due(START + 10).await.buried, 1);
    let leased = publish(NewJob {
        tries: 3,
        ..job("leased")
    })
    .await;
    assert_eq!(fixture.reserve(START, 1, TTR_MS).await, ["leased"]);
    let near = publish(delayed("near", 1000)).await;
    let far = publish(delayed("far", FAR_MS)).await;
    let ready = publish(job("ready")).await;
    let large = publish(job(&large())).await;
    let expiring = publish(NewJob {
        ttl_ms: FAR_MS,
        ..delayed("expiring", 2000)
    })
    .await;
    FilledBucket {
        fixture,
        near,
        far,
        ready,
        leased,
        dead,
        large,
        expiring,
    }
}

pub(crate) async fn audit(
    fixture: &StoreFixture,
    repair: bool,
) -> (AuditSummary, Vec<AuditFinding>) {
    audit_store(&fixture.store.at(START + 20), repair).await
}

pub(crate) async fn audit_store(store: &Store, repair: bool) -> (AuditSummary, Vec<AuditFinding>) {
    let options = AuditOptions {
        buckets: vec![],
        repair,
        pause: Duration::ZERO,
    };
    let mut found = Vec::new();
    let mut note = |event| {
        if let AuditEvent::Found(finding) = event {
            found.push(finding);
        }
    };
    let summary = store.audit(&options, &mut note).await.unwrap();
    (summary, found)
}

/// The defects that an audit finds, and whether it has repaired them.
pub(crate) async fn defects(store: &Store, repair: bool) -> Vec<(Inconsistency, bool)> {
    let (_, found) = audit_store(store, repair).await;
    let defects = found.into_iter();
    defects
        .map(|finding| (finding.defect, finding.repaired))
        .collect()
}

fn names(found: &[AuditFinding]) -> Vec<&'static str> {
    found.iter().map(|finding| finding.defect.name()).collect()
}

impl FilledBucket {
    /// Runs commands, given as words with spaces between them; `{near}` and the like are the numbers of jobs.
    fn damage(&self, commands: &[&str]) {
        let mut connection = self.fixture.connection();
        for command in commands {
            let mut words = command.split(' ').map(|word| self.filled(word));
            let mut sent = redis::cmd(&words.next().unwrap());
            words.for_each(|word| {
                sent.arg(word);
            });
            let done: redis::Value = sent.query(&mut connection).unwrap();
            assert_ne!(done, redis::Value::Int(0), "{command} changed nothing");
        }
    }

    fn filled(&self, word: &str) -> String {
        let jobs = [
            ("near", self.near),
            ("far", self.far),
            ("ready", self.ready),
            ("leased", self.leased),
            ("dead", self.dead),
            ("large", self.large),
            ("expiring", self.expiring),
        ];
        let mut filled = word.replace("b:", "tg:0:{8209}:");
        for (name, id) in jobs {
            let number = id.number();
            filled = filled.replace(&format!("{{{name}}}"), &number.to_string());
            filled = filled.replace(&format!("{{chunk_{name}}}"), &(number / 100).to_string());
        }
        let [first, ..] = SlotWidth::default().slots_of(START + FAR_MS);
        filled.replace("{slot}", &first.to_string())
    }

    /// Changes a byte of the record of a job.
    fn change_byte(&self, id: JobId, at: usize, change: u8) {
        let (key, field) = place(id);
        let mut connection = self.fixture.connection();
        let get = redis::cmd("HGET").arg(&key).arg(&field).to_owned();
        let mut record: Vec<u8> = get.query(&mut connection).unwrap();
        record[at] ^= change;
        let set = redis::cmd("HSET")
            .arg(&key)
            .arg(&field)
            .arg(record)
            .to_owned();
        set.exec(&mut connection).unwrap();
    }

    async fn expect_clean(&self) {
        let (_, found) = audit(&self.fixture, false).await;
        assert_eq!(found, []);
        let defects = consistency::defects(&self.fixture.redis.url()).await;
        assert_eq!(defects, [""; 0]);
    }

    /// The auditor finds exactly this, twice, and repairs it; after that nothing is found.
    async fn expect_repaired(&self, expected: &[&str]) {
        let (summary, found) = audit(&self.fixture, false).await;
        assert_eq!(names(&found), expected);
        assert_eq!(
            (summary.found, summary.repaired),
            (expected.len() as u64, 0)
        );
        let (summary, found) = audit(&self.fixture, true).await;
        assert_eq!(names(&found), expected);
        assert_eq!(summary.repaired, expected.len() as u64, "{found:?}");
        self.expect_clean().await;
    }
}

fn place(id: JobId) -> (String, String) {
    let number = id.number();
    (
        format!("tg:0:{{8209}}:c:{}", number / 100),
        format!("{:02}", number % 100),
    )
}

#[tokio::test]
async fn a_bucket_with_jobs_of_all_kinds_has_no_findings() {
    let bucket = filled_bucket().await;
    bucket.expect_clean().await;
    let (summary, _) = audit(&bucket.fixture, true).await;
    assert_eq!(
        (summary.buckets, summary.jobs, summary.queues_not_compared),
        (1, 7, 0)
    );
}

/// Defines tests: each of them makes this damage, and expects these findings and their repair.
macro_rules! repaired {
    ($($name:ident: $damage:expr => $expected:expr;)*) => {$(
        #[tokio::test]
        async fn $name() {
            let bucket = filled_bucket().await;
            bucket.damage(&$damage);
            bucket.expect_repaired(&$expected).await;
        }
    )*};
}

repaired! {
    a_near_timer_is_lost: ["ZREM b:near:1 {near}"] => ["no_timer"];
    a_lease_has_no_timer: ["ZREM b:near:1 {leased}"] => ["no_timer"];
    a_near_timer_is_late: ["ZADD b:near:1 XX CH INCR 1 {near}"] => ["no_timer"];
    a_far_hint_is_lost: ["LREM b:far:{slot} 0 {far}", "ZREM b:slots {slot}"] => ["no_timer"];
    a_far_hint_is_in_a_later_slot: ["RENAME b:far:{slot} b:far:1:99999999", "ZREM b:slots {slot}", "ZADD b:slots 6553599868928 1:99999999"]
        => ["no_timer"];
    a_ready_job_is_not_in_its_list: ["LREM b:ready:1 0 {ready}"] => ["not_listed"];
    a_ready_job_is_in_the_list_of_another_queue: ["LREM b:ready:1 0 {ready}", "RPUSH b:dead:1 {ready}"] => ["not_listed"];
    a_dead_job_is_not_in_its_list: ["LREM b:dead:1 0 {dead}"] => ["not_listed"];
    the_ready_list_is_missing: ["DEL b:ready:1"] => ["not_listed", "not_listed"];
    a_chunk_is_not_in_the_expiry_index: ["ZREM b:expiry {chunk_expiring}"] => ["not_swept"];
    a_chunk_is_swept_too_late: ["ZADD b:expiry XX CH GT 9000000000000 {chunk_expiring}"] => ["not_swept"];
    a_body_is_lost: ["DEL b:body:{large}"] => ["no_body"];
    a_body_has_no_job: ["SET b:body:1234567 x"] => ["orphaned_body"];
    a_small_job_has_a_body_key: ["SET b:body:{ready} x"] => ["orphaned_body"];
    a_queue_is_not_in_the_due_index: ["ZREM b:due 1"] => ["queue_not_due"];
    a_queue_is_in_the_due_index_too_late: ["ZADD b:due XX CH GT 9000000000000 1"] => ["queue_not_due"];
    a_slot_is_not_in_the_index: ["ZREM b:slots {slot}"] => ["bad_slot"];
    a_slot_is_loaded_too_late: ["ZADD b:slots XX CH GT 9000000000000 {slot}"] => ["bad_slot"];
    an_indexed_slot_does_not_exist: ["ZADD b:slots 9000000000000 1:137329101"] => ["bad_slot"];
    a_queue_has_no_name: ["HDEL b:q:1 name"] => ["missing_queue_name"];
    a_queue_is_not_in_the_list_of_queues:
        ["HDEL b:queues shop/orders"] => ["wrong_namespace_count", "orphaned_queue"];
    a_list_has_no_queue: ["RPUSH b:ready:7 1234567"] => ["orphaned_queue"];
    the_last_queue_number_is_missing: ["HDEL b:queues #"] => ["queue_ahead"];
    the_last_job_number_is_too_low: ["SET b:seq 1000002"] => ["job_ahead"];
    a_count_is_too_high: ["HINCRBY b:q:1 ready 5"] => ["wrong_counts"];
    counts_are_missing: ["HDEL b:q:1 delayed ready leased dead"] => ["wrong_counts"];
    a_chunk_has_a_time_to_live: ["PEXPIRE b:c:{chunk_ready} 100000"] => ["time_to_live"];
    an_upload_has_no_time_to_live: ["SET b:upload:a0:0 x"] => ["time_to_live"];
    an_upload_lives_too_long: ["SET b:upload:a0:0 x PX 1000000"] => ["time_to_live"];
}

/// Redis adds what its clock is set back by to the times to live of all keys.
#[tokio::test]
async fn a_clock_that_was_set_back_is_no_finding() {
    let bucket = filled_bucket().await;
    bucket.damage(&[
        "HSET b:waiting:498784 shop/orders 12345678",
        "PEXPIRE b:waiting:498784 7210000",
    ]);
    bucket.expect_clean().await;
}

#[tokio::test]
async fn findings_name_jobs_by_the_ids_that_clients_know() {
    let bucket = filled_bucket().await;
    bucket.damage(&["LREM b:ready:1 0 {ready}", "DEL b:body:{large}"]);
    let (_, found) = audit(&bucket.fixture, false).await;
    let texts: Vec<String> = found.iter().map(|one| one.defect.to_string()).collect();
    for id in [bucket.ready, bucket.large] {
        let id = id.to_string();
        assert!(
            texts.iter().any(|text| text.contains(&id)),
            "{id}: {texts:?}"
        );
    }
}

#[tokio::test]
async fn unknown_data_is_reported_and_not_changed() {
    let bucket = filled_bucket().await;
    bucket.damage(&[
        "SET b:what x",
        "SET tg:nobody x",
        "SET tg:9:{8209}:seq 5",
        "RPUSH b:far:1:5 x",
        "ZADD b:slots 262144 1:5",
    ]);
    bucket.damage(&["SET b:ready:9 x", "HSET b:c:{chunk_ready} z9 x"]);
    for repair in [false, true] {
        let (summary, found) = audit(&bucket.fixture, repair).await;
        let mut names = names(&found);
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "unknown_field",
                "unknown_key",
                "unknown_key",
                "unknown_key",
                "wrong_type"
            ]
        );
        assert_eq!(summary.repaired, 0);
    }
}

#[tokio::test]
async fn a_damaged_record_is_reported_and_set_aside() {
    for (place_of, expected_aside) in [(HEADER_BYTES + 1, 1), (0, 1), (1, 1)] {
        let bucket = filled_bucket().await;
        bucket.change_byte(bucket.ready, place_of, 0x40);
        let (_, found) = audit(&bucket.fixture, false).await;
        let expected: &[&str] = match place_of {
            // The state cannot be read, so it is unknown which count had the job.
            0 | 1 => &["corrupt", "wrong_counts"],
            _ => &["corrupt"],
        };
        assert_eq!(names(&found), expected);
        bucket.expect_repaired(expected).await;
        let mut connection = bucket.fixture.connection();
        let aside: usize = redis::cmd("HLEN")
            .arg("tg:0:{8209}:corrupt")
            .query(&mut connection)
            .unwrap();
        assert_eq!(aside, expected_aside);
    }
}

/// Every byte of a record is changed. Changes that the seal or the header shows are found. Any other change makes a job
/// that could have been published like this; its hints and counts are repaired.
#[tokio::test]
async fn a_changed_byte_of_a_record_is_found_or_harmless() {
    /// The flags that never change, and the nonce.
    const SEALED: [usize; 3] = [3, 32, 33];
    let bucket = filled_bucket().await;
    let (key, field) = place(bucket.far);
    let mut connection = bucket.fixture.connection();
    let length = redis::cmd("HSTRLEN").arg(&key).arg(&field).to_owned();
    let bytes: usize = length.query(&mut connection).unwrap();
    let dump = redis::cmd("HGET").arg(&key).arg(&field).to_owned();
    let record: Vec<u8> = dump.query(&mut connection).unwrap();
    for at in 0..bytes {
        bucket.change_byte(bucket.far, at, 0x40);
        let (_, found) = audit(&bucket.fixture, false).await;
        let is_corrupt = names(&found).contains(&"corrupt");
        let is_shown = at < 2 || SEALED.contains(&at) || at >= HEADER_BYTES;
        assert_eq!(is_corrupt, is_shown, "byte {at}: {found:?}");
        let set = redis::cmd("HSET")
            .arg(&key)
            .arg(&field)
            .arg(&record)
            .to_owned();
        set.exec(&mut connection).unwrap();
    }
    bucket.expect_clean().await;
    for at in 0..bytes {
        bucket.change_byte(bucket.far, at, 0x01);
        // One kind of damage may hide another one until it is repaired.
        for _ in 0..2 {
            audit(&bucket.fixture, true).await;
        }
        let (_, found) = audit(&bucket.fixture, false).await;
        assert_eq!(found, [], "byte {at}");
        // The restored job is in no count.
        let set = redis::cmd("HSET")
            .arg(&key)
            .arg(&field)
            .arg(&record)
            .to_owned();
        set.exec(&mut connection).unwrap();
        for _ in 0..2 {
            audit(&bucket.fixture, true).await;
        }
    }
    bucket.expect_clean().await;
}

/// The holder of the lock is not on the roster, and no other pump takes it over.
#[tokio::test]
async fn the_lock_of_a_pump_that_has_left_is_freed() {
    let bucket = filled_bucket().await;
    bucket.fixture.store.roster_leave(0, TOKEN).await.unwrap();
    let (_, found) = audit(&bucket.fixture, true).await;
    assert_eq!(names(&found), ["orphaned_lock"]);
    let (_, found) = audit(&bucket.fixture, false).await;
    assert_eq!(found, []);
}

/// The pump is not on the roster at the start and at the end of the audit, but in between: no other pump had to take
/// its lock. Fault run with seed 3: a pump was paused until others took its locks, resumed, and lost its connections.
#[tokio::test]
async fn a_pump_that_leaves_the_roster_twice_keeps_its_lock() {
    let bucket = filled_bucket().await;
    let store = &bucket.fixture.store;
    store.roster_leave(0, TOKEN).await.unwrap();
    let joins_and_leaves = async {
        sleep(Duration::from_secs(1)).await;
        store.roster_join(0, TOKEN, MEMBERSHIP_MS).await.unwrap();
        sleep(Duration::from_secs(4)).await;
        store.roster_leave(0, TOKEN).await.unwrap();
    };
    let ((_, found), ()) = join!(audit(&bucket.fixture, true), joins_and_leaves);
    assert_eq!(found, []);
}

#[tokio::test]
async fn a_damaged_sequence_ends_the_audit_with_its_key() {
    let f = fixture().await;
    damage(&f, &["SET b:seq x"]);
    let options = AuditOptions {
        buckets: vec![],
        repair: false,
        pause: Duration::ZERO,
    };
    let audited = f.store.audit(&options, &mut |_| {}).await;
    let error = audited.unwrap_err().to_string();
    assert!(
        error.contains("tg:0:{8209}:seq is no number") && error.contains("set it to"),
        "{error}"
    );
}
