//! The auditor: each kind of damage is done to a real Redis by hand, found, mended, and gone.

use std::time::Duration;

use tidegate_core::codec::HEADER_BYTES;
use tidegate_core::{JobId, NewJob};
use tidegate_store::{AuditEvent, AuditOptions, AuditSummary, Finding};
use tidegate_testkit::world;
use tokio::join;
use tokio::time::sleep;

use crate::fixture::{Fixture, START, TOKEN, delayed, fixture, job};

const FAR_MS: u64 = 3_600_000;
const TTR_MS: u64 = 60_000;
/// Longer than any test.
const MEMBERSHIP_MS: u64 = 3_600_000;

/// A bucket with a job of each kind.
struct World {
    fixture: Fixture,
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

async fn world() -> World {
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
    World {
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

pub(crate) async fn audit(fixture: &Fixture, repair: bool) -> (AuditSummary, Vec<Finding>) {
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
    let store = fixture.store.at(START + 20);
    let summary = store.audit(&options, &mut note).await.unwrap();
    (summary, found)
}

fn names(found: &[Finding]) -> Vec<&'static str> {
    found.iter().map(|finding| finding.defect.name()).collect()
}

impl World {
    /// Runs commands, words with blanks between them; `{near}` and its like are the numbers of jobs.
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
        let far_slot = (START + FAR_MS) / 65_536;
        filled.replace("{slot}", &far_slot.to_string())
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
        let defects = world::defects(&self.fixture.redis.url()).await;
        assert_eq!(defects, [""; 0]);
    }

    /// The auditor finds this and nothing else, twice; mends it; and all is well.
    async fn expect_mended(&self, expected: &[&str]) {
        let (summary, found) = audit(&self.fixture, false).await;
        assert_eq!(names(&found), expected);
        assert_eq!((summary.found, summary.mended), (expected.len() as u64, 0));
        let (summary, found) = audit(&self.fixture, true).await;
        assert_eq!(names(&found), expected);
        assert_eq!(summary.mended, expected.len() as u64, "{found:?}");
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
async fn a_bucket_with_jobs_of_all_kinds_is_sound() {
    let world = world().await;
    world.expect_clean().await;
    let (summary, _) = audit(&world.fixture, true).await;
    assert_eq!(
        (summary.buckets, summary.jobs, summary.uncounted),
        (1, 7, 0)
    );
}

/// Each test does this damage, and expects these findings.
macro_rules! mended {
    ($($name:ident: $damage:expr => $expected:expr;)*) => {$(
        #[tokio::test]
        async fn $name() {
            let world = world().await;
            world.damage(&$damage);
            world.expect_mended(&$expected).await;
        }
    )*};
}

mended! {
    a_near_timer_is_lost: ["ZREM b:near:1 {near}"] => ["no_timer"];
    a_lease_has_no_end: ["ZREM b:near:1 {leased}"] => ["no_timer"];
    a_near_timer_is_late: ["ZADD b:near:1 XX CH INCR 1 {near}"] => ["no_timer"];
    a_far_hint_is_lost: ["LREM b:far:{slot} 0 {far}", "ZREM b:slots {slot}"] => ["no_timer"];
    a_far_hint_is_in_a_later_slot: ["RENAME b:far:{slot} b:far:99999999", "ZREM b:slots {slot}", "ZADD b:slots 6553599868928 99999999"]
        => ["no_timer"];
    a_ready_job_is_not_in_its_list: ["LREM b:ready:1 0 {ready}"] => ["not_listed"];
    a_ready_job_is_in_the_list_of_another_queue: ["LREM b:ready:1 0 {ready}", "RPUSH b:dead:1 {ready}"] => ["not_listed"];
    a_dead_job_is_not_in_its_list: ["LREM b:dead:1 0 {dead}"] => ["not_listed"];
    the_ready_list_is_gone: ["DEL b:ready:1"] => ["not_listed", "not_listed"];
    the_sweep_does_not_know: ["ZREM b:expiry {chunk_expiring}"] => ["not_swept"];
    the_sweep_looks_too_late: ["ZADD b:expiry XX CH GT 9000000000000 {chunk_expiring}"] => ["not_swept"];
    a_body_is_lost: ["DEL b:body:{large}"] => ["no_body"];
    a_body_is_alone: ["SET b:body:1234567 x"] => ["body_alone"];
    a_body_is_that_of_a_small_job: ["SET b:body:{ready} x"] => ["body_alone"];
    a_queue_is_not_looked_at: ["ZREM b:due 1"] => ["queue_not_due"];
    a_queue_is_looked_at_too_late: ["ZADD b:due XX CH GT 9000000000000 1"] => ["queue_not_due"];
    a_slot_is_not_known: ["ZREM b:slots {slot}"] => ["bad_slot"];
    a_slot_is_loaded_too_late: ["ZADD b:slots XX CH GT 9000000000000 {slot}"] => ["bad_slot"];
    a_slot_is_not_there: ["ZADD b:slots 9000000000000 137329101"] => ["bad_slot"];
    a_queue_forgot_its_name: ["HDEL b:q:1 name"] => ["name_lost"];
    a_name_is_gone: ["HDEL b:queues shop/orders"] => ["queue_alone"];
    a_list_is_that_of_no_queue: ["RPUSH b:ready:7 1234567"] => ["queue_alone"];
    the_last_queue_number_is_gone: ["HDEL b:queues #"] => ["queue_ahead"];
    the_last_job_number_is_too_low: ["SET b:seq 1000002"] => ["job_ahead"];
    a_count_is_too_high: ["HINCRBY b:q:1 ready 5"] => ["wrong_counts"];
    counts_are_gone: ["HDEL b:q:1 delayed ready leased dead"] => ["wrong_counts"];
    a_chunk_goes_away_by_itself: ["PEXPIRE b:c:{chunk_ready} 100000"] => ["time_to_live"];
    an_upload_stays: ["SET b:upload:a0:0 x"] => ["time_to_live"];
    an_upload_stays_too_long: ["SET b:upload:a0:0 x PX 1000000"] => ["time_to_live"];
}

#[tokio::test]
async fn what_belongs_to_nobody_is_told_and_left() {
    let world = world().await;
    world.damage(&[
        "SET b:what x",
        "SET tg:nobody x",
        "SET tg:9:{8209}:seq 5",
        "RPUSH b:far:5 x",
        "ZADD b:slots 262144 5",
    ]);
    world.damage(&["SET b:ready:9 x", "HSET b:c:{chunk_ready} z9 x"]);
    for repair in [false, true] {
        let (summary, found) = audit(&world.fixture, repair).await;
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
        assert_eq!(summary.mended, 0);
    }
}

#[tokio::test]
async fn a_damaged_job_is_set_aside_with_its_body_and_can_be_looked_at() {
    for (place_of, expected_aside) in [(HEADER_BYTES + 1, 1), (0, 1), (1, 1)] {
        let world = world().await;
        world.change_byte(world.ready, place_of, 0x40);
        let (_, found) = audit(&world.fixture, false).await;
        let expected: &[&str] = match place_of {
            // No state: nobody knows whose count it was in.
            0 | 1 => &["corrupt", "wrong_counts"],
            _ => &["corrupt"],
        };
        assert_eq!(names(&found), expected);
        world.expect_mended(expected).await;
        let mut connection = world.fixture.connection();
        let aside: usize = redis::cmd("HLEN")
            .arg("tg:0:{8209}:corrupt")
            .query(&mut connection)
            .unwrap();
        assert_eq!(aside, expected_aside);
    }
}

/// Every byte of a record is changed. What the seal or the header shows is found; what is left, a job that
/// could have been published so, is as good as any, or its hints and counts are put right.
#[tokio::test]
async fn a_byte_of_a_record_that_is_changed_is_found_or_harmless() {
    /// Flags and nonce are sealed.
    const SEALED: [usize; 4] = [2, 3, 32, 33];
    let world = world().await;
    let (key, field) = place(world.far);
    let mut connection = world.fixture.connection();
    let length = redis::cmd("HSTRLEN").arg(&key).arg(&field).to_owned();
    let bytes: usize = length.query(&mut connection).unwrap();
    let dump = redis::cmd("HGET").arg(&key).arg(&field).to_owned();
    let record: Vec<u8> = dump.query(&mut connection).unwrap();
    for at in 0..bytes {
        world.change_byte(world.far, at, 0x40);
        let (_, found) = audit(&world.fixture, false).await;
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
    world.expect_clean().await;
    for at in 0..bytes {
        world.change_byte(world.far, at, 0x01);
        // One kind of damage may hide another one: what is mended shows it.
        for _ in 0..2 {
            audit(&world.fixture, true).await;
        }
        let (_, found) = audit(&world.fixture, false).await;
        assert_eq!(found, [], "byte {at}");
        // The job is back, and was never counted.
        let set = redis::cmd("HSET")
            .arg(&key)
            .arg(&field)
            .arg(&record)
            .to_owned();
        set.exec(&mut connection).unwrap();
        for _ in 0..2 {
            audit(&world.fixture, true).await;
        }
    }
    world.expect_clean().await;
}

/// Nobody has this lock: it is freed, and only after it had time to be taken.
#[tokio::test]
async fn a_lock_of_a_pump_that_is_gone_is_freed() {
    let world = world().await;
    world.fixture.store.roster_leave(0, TOKEN).await.unwrap();
    let (_, found) = audit(&world.fixture, true).await;
    assert_eq!(names(&found), ["lock_of_nobody"]);
    let (_, found) = audit(&world.fixture, false).await;
    assert_eq!(found, []);
}

/// The pump is not on the roster at the start and at the end of the audit, but in between: no other pump had to take its
/// lock. Fault run with seed 3: a pump was paused until others took its locks, resumed, and lost its connections.
#[tokio::test]
async fn a_pump_that_leaves_the_roster_twice_keeps_its_lock() {
    let world = world().await;
    let store = &world.fixture.store;
    store.roster_leave(0, TOKEN).await.unwrap();
    let joins_and_leaves = async {
        sleep(Duration::from_secs(1)).await;
        store.roster_join(0, TOKEN, MEMBERSHIP_MS).await.unwrap();
        sleep(Duration::from_secs(4)).await;
        store.roster_leave(0, TOKEN).await.unwrap();
    };
    let ((_, found), ()) = join!(audit(&world.fixture, true), joins_and_leaves);
    assert_eq!(found, []);
}
