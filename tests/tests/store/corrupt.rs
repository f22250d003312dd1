//! Damaged records: a job that cannot be read is not delivered, and blocks neither the other jobs of its queue nor the
//! pump of its bucket.

use tidegate_core::codec::HEADER_BYTES;
use tidegate_core::{JobId, NewJob};

use crate::fixture::{START, StoreFixture, fixture, job};

/// The state of the job when its record is damaged.
#[derive(Debug, Clone, Copy)]
enum Place {
    Delayed,
    Ready,
    Leased,
    Dead,
}

const PLACES: [Place; 4] = [Place::Delayed, Place::Ready, Place::Leased, Place::Dead];
/// In the header: states become other states or invalid.
const CHANGES_OF_HEADER: &[u8] = &[0x01, 0x03, 0x06, 0xFF];
/// All changes of the payload are alike: `crates/core/tests/golden.rs` tries every one.
const CHANGES_OF_PAYLOAD: &[u8] = &[0x10];
const TTR_MS: u64 = 1000;

const BODY: &str = "damaged damaged damaged damaged damaged damaged";

fn changes(at: usize) -> impl Iterator<Item = (usize, u8)> {
    let changes = match at < HEADER_BYTES {
        true => CHANGES_OF_HEADER,
        false => CHANGES_OF_PAYLOAD,
    };
    changes.iter().map(move |change| (at, *change))
}

async fn damaged(fixture: &StoreFixture, place: Place, at: usize, change: u8) -> JobId {
    let delay_ms = if matches!(place, Place::Delayed) {
        10
    } else {
        0
    };
    let id = fixture
        .publish(
            START,
            NewJob {
                delay_ms,
                ..job(BODY)
            },
        )
        .await;
    if matches!(place, Place::Leased | Place::Dead) {
        assert_eq!(fixture.reserve(START, 1, TTR_MS).await, [BODY]);
    }
    if matches!(place, Place::Dead) {
        assert_eq!(fixture.move_due(START + TTR_MS).await.buried, 1);
    }
    let (chunk, field) = (id.number() / 100, format!("{:02}", id.number() % 100));
    let mut connection = fixture.connection();
    let key = format!("tg:0:{{8209}}:c:{chunk}");
    let get = redis::cmd("HGET").arg(&key).arg(&field).to_owned();
    let mut record: Vec<u8> = get.query(&mut connection).unwrap();
    if let Some(byte) = record.get_mut(at) {
        *byte ^= change;
    }
    let set = redis::cmd("HSET")
        .arg(&key)
        .arg(&field)
        .arg(record)
        .to_owned();
    set.exec(&mut connection).unwrap();
    id
}

async fn record_bytes(fixture: &StoreFixture) -> usize {
    let id = fixture.publish(START, job(BODY)).await;
    let key = format!("tg:0:{{8209}}:c:{}", id.number() / 100);
    let length = redis::cmd("HSTRLEN")
        .arg(&key)
        .arg(format!("{:02}", id.number() % 100))
        .to_owned();
    length.query(&mut fixture.connection()).unwrap()
}

/// All verbs work on the bucket, and healthy jobs are delivered as if the damaged one did not exist.
async fn goes_on(fixture: &StoreFixture, id: JobId, is_sealed: bool) {
    let late = START + 10 * TTR_MS;
    let store = fixture.store.at(late);
    fixture
        .publish(
            START,
            NewJob {
                delay_ms: 10,
                ..job("waits")
            },
        )
        .await;
    fixture.publish(START, job("next")).await;
    fixture.move_due(late).await;
    fixture.sweep(late).await;
    let got = fixture.reserve(late, 10, TTR_MS).await;
    assert_eq!(
        got.iter().filter(|body| *body != BODY).count(),
        2,
        "{got:?}"
    );
    assert!(!is_sealed || got.iter().all(|body| body != BODY), "{got:?}");
    // Whether these find the job does not matter.
    drop(store.peek_job(&fixture.queue, id).await);
    drop(store.peek_ready(&fixture.queue).await);
    drop(store.peek_dead(&fixture.queue).await);
    fixture.move_due(late + TTR_MS).await;
    fixture.sweep(late + TTR_MS).await;
    store.respawn(&fixture.queue, 10, 0).await.unwrap();
    store.purge_ready(&fixture.queue).await.unwrap();
    store.purge_dead(&fixture.queue, 10).await.unwrap();
    let _ = store.ack(&fixture.queue, id, None).await.unwrap();
}

fn forget_jobs(fixture: &StoreFixture) {
    let forget = "for _, key in ipairs(redis.call('KEYS', 'tg:0:{8209}:*')) do \
                  if key ~= KEYS[1] then redis.call('DEL', key) end end";
    let forget = redis::cmd("EVAL")
        .arg(forget)
        .arg(1)
        .arg("tg:0:{8209}:lock")
        .to_owned();
    forget.exec(&mut fixture.connection()).unwrap();
}

#[tokio::test]
async fn a_damaged_record_blocks_no_other_job() {
    let fixture = fixture().await;
    let bytes = record_bytes(&fixture).await;
    for place in PLACES {
        for (at, change) in (0..bytes).flat_map(changes) {
            forget_jobs(&fixture);
            let case = format!("{place:?}, byte {at} changed by {change:#x}");
            println!("{case}");
            let id = damaged(&fixture, place, at, change).await;
            goes_on(&fixture, id, at >= HEADER_BYTES).await;
        }
    }
}

/// A job that cannot be read does not count against a claim: one call delivers the others.
#[tokio::test]
async fn one_call_delivers_the_jobs_behind_damaged_ones() {
    let fixture = fixture().await;
    let last = record_bytes(&fixture).await - 1;
    forget_jobs(&fixture);
    for _ in 0..3 {
        damaged(&fixture, Place::Ready, last, 1).await;
    }
    fixture.publish(START, job("behind")).await;
    assert_eq!(fixture.reserve(START, 1, TTR_MS).await, ["behind"]);
    assert_eq!(fixture.counts().await, [0, 0, 4, 0]);
    assert_eq!(fixture.move_due(START + TTR_MS).await.buried, 4);
    assert_eq!(
        fixture.counts().await,
        [0, 0, 0, 4],
        "all are in the dead letter"
    );
}
