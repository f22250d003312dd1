//! Bodies outside of their records: how they are stored and deleted, and what is left after a failure half-way.

use std::time::Duration;

use bytes::Bytes;
use rand::RngExt;
use tidegate_core::v1::consume::Outcome;
use tidegate_core::v1::job::JobChange;
use tidegate_core::v1::publish::DueTime;
use tidegate_core::v1::values::DurationMs;
use tidegate_core::{JobState, NewJob};
use tidegate_store::{ChangeOutcome, Claim, StoreError, Unavailable};
use tidegate_testkit::{consistency, eventually};

use crate::fixture::{START, StoreFixture, fixture, job};

/// In the record; outside of it but in the call of the script; in a separate upload, also of large sizes.
const SIZES: [usize; 5] = [100, 2000, 5000, 100_000, 1_000_000];
const WITHIN: Duration = Duration::from_secs(10);

/// A job whose body cannot be compressed.
pub(crate) fn sized(bytes: usize) -> NewJob {
    let mut body = vec![0; bytes];
    rand::rng().fill(&mut body[..]);
    NewJob {
        body: Bytes::from(body),
        tries: 3,
        ..job("")
    }
}

async fn reserve(f: &StoreFixture, claims: &[Claim]) -> Result<Vec<Vec<Bytes>>, StoreError> {
    let reserved = f.store.at(START).reserve(&f.queue, claims).await?;
    let bodies = |jobs: Vec<tidegate_core::Job>| jobs.into_iter().map(|job| job.body).collect();
    Ok(reserved.jobs.into_iter().map(bodies).collect())
}

const fn claim(count: u16) -> Claim {
    Claim::new(count, 1000)
}

fn acl(f: &StoreFixture, change: &str) {
    let mut set = redis::cmd("ACL");
    set.arg("SETUSER").arg("default").arg(change);
    set.exec(&mut f.connection()).unwrap();
}

pub(crate) fn uploads(f: &StoreFixture) -> Vec<String> {
    let mut keys = f.keys_of_jobs();
    keys.retain(|key| key.contains("upload:"));
    keys
}

fn is(refused: &StoreError, expected: Unavailable) -> bool {
    matches!(refused, StoreError::Unavailable { reason, .. } if *reason == expected)
}

#[tokio::test]
async fn bodies_of_all_sizes_are_delivered_unchanged_and_in_order() {
    let f = fixture().await;
    let store = f.store.at(START);
    let jobs: Vec<NewJob> = SIZES.iter().cycle().take(35).map(|it| sized(*it)).collect();
    let ids = store.publish(&f.queue, &jobs, None).await.unwrap();
    assert_eq!(uploads(&f), Vec::<String>::new());
    let bodies: Vec<Bytes> = jobs.into_iter().map(|job| job.body).collect();
    for (id, body) in ids.iter().zip(&bodies) {
        let peeked = store.peek_job(&f.queue, *id).await.unwrap().unwrap();
        assert_eq!((peeked.job.id, &peeked.job.body), (*id, body));
    }
    let head = store.peek_ready(&f.queue).await.unwrap().unwrap();
    assert_eq!(head.job.body, bodies[0]);
    let got = reserve(&f, &[claim(1), claim(30), claim(10)])
        .await
        .unwrap();
    assert_eq!(got, [&bodies[..1], &bodies[1..31], &bodies[31..]]);
    consistency::check(&f.redis.url()).await;
    for id in ids {
        let _ = store.ack(&f.queue, id, None).await.unwrap();
    }
    assert_eq!(f.keys_of_jobs(), Vec::<String>::new());
}

/// The job may be delivered and end right after the change: what is answered must not depend on a further read.
#[tokio::test]
async fn a_change_does_not_read_the_body() {
    let f = fixture().await;
    let new = NewJob {
        delay_ms: 60_000,
        ..sized(5000)
    };
    let id = f.publish(START, new).await;
    acl(&f, "-get");
    let change = JobChange::from(DueTime::After(DurationMs::saturating(0)));
    let changed = f.store.at(START).change(&f.queue, id, change).await;
    let ChangeOutcome::Done(changed) = changed.unwrap() else {
        panic!("the job waits")
    };
    assert_eq!((changed.id, changed.state), (id, JobState::Ready));
    acl(&f, "+get");
    assert_eq!(reserve(&f, &[claim(1)]).await.unwrap()[0].len(), 1);
}

#[tokio::test]
async fn large_bodies_are_stored_after_a_script_flush() {
    let f = fixture().await;
    let jobs = [sized(50_000)];
    redis::cmd("SCRIPT")
        .arg("FLUSH")
        .exec(&mut f.connection())
        .unwrap();
    let store = f.store.at(START);
    store.publish(&f.queue, &jobs, None).await.unwrap();
    let got = reserve(&f, &[claim(1)]).await.unwrap();
    assert_eq!(got, [[jobs[0].body.clone()]]);
}

#[tokio::test]
async fn a_publish_whose_upload_fails_stores_nothing() {
    let f = fixture().await;
    let jobs = [sized(100), sized(50_000), sized(3000)];
    acl(&f, "-set");
    let refused = f.store.publish(&f.queue, &jobs, None).await.unwrap_err();
    assert!(is(&refused, Unavailable::Forbidden), "{refused:?}");
    assert_eq!(f.counts().await, [0; 4]);
    assert_eq!(f.keys_of_jobs(), Vec::<String>::new());
    acl(&f, "+set");
    f.store.publish(&f.queue, &jobs, None).await.unwrap();
    assert_eq!(f.counts().await, [0, 3, 0, 0]);
}

#[tokio::test]
async fn the_body_of_a_job_has_no_time_to_live() {
    let f = fixture().await;
    let id = f.publish(START, sized(50_000)).await;
    let ttl: i64 = redis::cmd("PTTL")
        .arg(format!("tg:0:{{8209}}:body:{}", id.number()))
        .query(&mut f.connection())
        .unwrap();
    assert_eq!(ttl, -1);
}

#[tokio::test]
async fn an_upload_without_its_publish_is_no_job_and_expires() {
    let f = fixture().await;
    f.publish(START, job("other")).await;
    acl(&f, "-evalsha");
    let jobs = [sized(50_000), sized(60_000)];
    let refused = f.store.publish(&f.queue, &jobs, None).await.unwrap_err();
    assert!(is(&refused, Unavailable::Forbidden), "{refused:?}");
    acl(&f, "+evalsha");
    let left = uploads(&f);
    assert_eq!(left.len(), 2);
    assert_eq!(f.counts().await, [0, 1, 0, 0]);
    f.expect(START, &["other"]).await;
    consistency::check(&f.redis.url()).await;
    for key in left {
        let ttl: i64 = redis::cmd("PTTL")
            .arg(&key)
            .query(&mut f.connection())
            .unwrap();
        assert!((1..=60_000).contains(&ttl), "{key} lives for {ttl} ms");
        // Shortens the wait for the minute.
        let mut expire = redis::cmd("PEXPIRE");
        expire.arg(&key).arg(1).exec(&mut f.connection()).unwrap();
    }
    eventually("uploads are gone", WITHIN, async || match uploads(&f) {
        left if left.is_empty() => Ok(()),
        left => Err(left.join(" ")),
    })
    .await;
}

#[tokio::test]
async fn a_full_server_stores_no_part_of_a_large_publish() {
    let f = fixture().await;
    f.publish(START, job("first")).await;
    let limit = |bytes: &str| {
        let mut set = redis::cmd("CONFIG");
        set.arg("SET").arg("maxmemory").arg(bytes);
        set.exec(&mut f.connection()).unwrap();
    };
    limit("1");
    let jobs = [sized(100), sized(50_000)];
    let refused = f.store.publish(&f.queue, &jobs, None).await.unwrap_err();
    assert!(is(&refused, Unavailable::OutOfMemory), "{refused:?}");
    assert_eq!((f.counts().await, uploads(&f).len()), ([0, 1, 0, 0], 0));
    limit("0");
    f.expect(START, &["first"]).await;
}

#[tokio::test]
async fn jobs_whose_bodies_cannot_be_fetched_are_next_again_with_all_attempts() {
    let f = fixture().await;
    let jobs = [sized(100), sized(50_000), sized(60_000), sized(100)];
    f.store
        .at(START)
        .publish(&f.queue, &jobs, None)
        .await
        .unwrap();
    acl(&f, "-get");
    let refused = reserve(&f, &[claim(2), claim(1)]).await.unwrap_err();
    assert!(is(&refused, Unavailable::Forbidden), "{refused:?}");
    acl(&f, "+get");
    assert_eq!(f.counts().await, [0, 4, 0, 0]);
    let store = f.store.at(START);
    let got = store.reserve(&f.queue, &[claim(9)]).await.unwrap().jobs;
    let tries: Vec<_> = got[0]
        .iter()
        .map(|it| (it.attempt, it.tries_left))
        .collect();
    // The first three were leased before; the attempt of a delivery that was given back is not used again.
    assert_eq!(tries, [(2, 2), (2, 2), (2, 2), (1, 2)]);
    let bodies: Vec<_> = got[0].iter().map(|it| &it.body).collect();
    let published: Vec<_> = jobs.iter().map(|it| &it.body).collect();
    assert_eq!(bodies, published);
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn a_missing_body_is_reported_and_blocks_no_other_job() {
    let f = fixture().await;
    let id = f.publish(START, sized(50_000)).await;
    let body = format!("tg:0:{{8209}}:body:{}", id.number());
    redis::cmd("DEL")
        .arg(body)
        .exec(&mut f.connection())
        .unwrap();
    let peeked = f.store.at(START).peek_job(&f.queue, id).await;
    assert!(matches!(peeked, Err(StoreError::Corrupt(_))), "{peeked:?}");
    let behind = sized(50_000);
    f.publish(START, behind.clone()).await;
    let reserved = reserve(&f, &[claim(1)]).await.unwrap().concat();
    assert_eq!(reserved, [behind.body]);
}

/// The order of the two calls is random. Neither order may end in an error, a wait or an empty body.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_deleted_during_its_reserve_is_replaced_by_the_next_one() {
    let f = fixture().await;
    let (store, claims) = (f.store.at(START), [claim(1), claim(1)]);
    for _ in 0..200 {
        let jobs = [sized(20_000), sized(30_000)];
        let ids = store.publish(&f.queue, &jobs, None).await.unwrap();
        let (reserved, acked) =
            tokio::join!(reserve(&f, &claims), store.ack(&f.queue, ids[0], None));
        assert_eq!(acked.unwrap().outcome, Outcome::DONE);
        let mut got = reserved.unwrap().concat();
        assert_eq!(got.pop().unwrap(), jobs[1].body);
        assert!(got.is_empty() || got == [jobs[0].body.clone()]);
        let _ = store.ack(&f.queue, ids[1], None).await.unwrap();
    }
    consistency::check(&f.redis.url()).await;
}
