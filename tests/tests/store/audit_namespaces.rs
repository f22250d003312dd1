//! The auditor compares how many names each namespace counts, for its limits, with the names that exist.

use std::time::Duration;

use tidegate_core::{Policy, QueueKey};
use tidegate_store::{AuditFinding, NamespacedName, Store, TableSetOutcome};
use tidegate_testkit::{consistency, webhook_relay};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::audit::audit;
use crate::audit_schedules::{damage, texts};
use crate::fixture::{START, StoreFixture, TOKEN, fixture, job};

/// Audits while names are added and removed.
const AUDITS: usize = 30;
const RELAYS: usize = 3000;

async fn publish_to(f: &StoreFixture, queue: &str) {
    let queue = QueueKey::try_from(queue).unwrap();
    let store = f.store.at(START);
    store.publish(&queue, &[job("x")], None).await.unwrap();
}

async fn set_policy(f: &StoreFixture, queue: &str) {
    let queue = QueueKey::try_from(queue).unwrap();
    let policy = Policy {
        max_jobs: Some(5),
        ..Policy::default()
    };
    let set = f.store.policies().set(&queue, Some(&policy), None).await;
    assert!(matches!(set.unwrap(), TableSetOutcome::Done(_)));
}

/// Sets a relay, or removes it.
async fn set_relay(store: &Store, key: &str, is_there: bool) {
    let key = NamespacedName::try_from(key).unwrap();
    let config = is_there.then(|| webhook_relay("http://a"));
    let set = store.relays().set(&key, config.as_ref(), None).await;
    assert!(matches!(set.unwrap(), TableSetOutcome::Done(_)));
}

/// Two namespaces with names in each hash that counts them.
async fn two_namespaces() -> StoreFixture {
    let f = fixture().await;
    f.store.roster_join(0, TOKEN, 3_600_000).await.unwrap();
    for name in ["shop/a", "shop/b", "mail/a"] {
        publish_to(&f, name).await;
        set_policy(&f, name).await;
        set_relay(&f.store, name, true).await;
    }
    f
}

#[tokio::test]
async fn counts_of_namespaces_that_differ_from_their_names_are_found_and_corrected() {
    let f = two_namespaces().await;
    let (_, found) = audit(&f, false).await;
    assert_eq!(texts(&found), [""; 0]);
    damage(
        &f,
        &[
            "HINCRBY b:queues shop/ 5",
            "HDEL b:queues mail/",
            "HINCRBY tg:policies shop/ -1",
            "HSET tg:policies gone/ 3",
            "HDEL tg:relays mail/",
        ],
    );
    let mut connection = f.connection();
    let mut overwrite = redis::cmd("HSET");
    overwrite.arg("tg:relays").arg("shop/").arg("many");
    let _: i64 = overwrite.query(&mut connection).unwrap();
    let expected = [
        r#"wrong_namespace_count: tg:0:{8209}:queues: has 1 names of namespace "mail", and counts """#,
        r#"wrong_namespace_count: tg:0:{8209}:queues: has 2 names of namespace "shop", and counts "7""#,
        r#"wrong_namespace_count: tg:policies: has 0 names of namespace "gone", and counts "3""#,
        r#"wrong_namespace_count: tg:policies: has 2 names of namespace "shop", and counts "1""#,
        r#"wrong_namespace_count: tg:relays: has 1 names of namespace "mail", and counts """#,
        r#"wrong_namespace_count: tg:relays: has 2 names of namespace "shop", and counts "many""#,
    ];
    for repair in [false, true] {
        let (summary, found) = audit(&f, repair).await;
        assert_eq!(texts(&found), expected);
        let repaired = if repair { expected.len() as u64 } else { 0 };
        assert_eq!(summary.repaired, repaired);
    }
    let (_, found) = audit(&f, false).await;
    assert_eq!(texts(&found), [""; 0]);
    assert_eq!(consistency::defects(&f.redis.url()).await, [""; 0]);

    // The counts are right again when names are removed.
    for name in ["shop/a", "shop/b", "mail/a"] {
        set_relay(&f.store, name, false).await;
    }
    let mut fields = redis::cmd("HKEYS");
    let left: Vec<String> = fields.arg("tg:relays").query(&mut connection).unwrap();
    assert_eq!(left, ["#"]);
}

#[tokio::test]
async fn a_queue_that_gets_its_name_back_is_counted() {
    let f = two_namespaces().await;
    damage(&f, &["HDEL b:queues shop/a", "HINCRBY b:queues shop/ -1"]);
    let (_, found) = audit(&f, true).await;
    assert_eq!(
        texts(&found),
        ["orphaned_queue: queue 1 has no entry in queues"]
    );
    assert_eq!(consistency::defects(&f.redis.url()).await, [""; 0]);
}

/// Adds so many relays that a walk through them takes many calls.
fn add_many_relays(f: &StoreFixture) {
    let mut add = redis::pipe();
    for number in 0..RELAYS {
        let name = format!("shop/{number}");
        add.hset("tg:relays", name, "1.00000000 {}").ignore();
    }
    add.hincr("tg:relays", "shop/", RELAYS).ignore();
    let () = add.query(&mut f.connection()).unwrap();
}

/// Adds and removes a relay and a queue until stopped.
async fn add_and_remove(store: Store, stop: CancellationToken) {
    let queue = QueueKey::try_from("shop/now-and-then").unwrap();
    for round in 0_u64.. {
        let name = format!("shop/now-and-then-{round}");
        for is_there in [true, false] {
            set_relay(&store, &name, is_there).await;
            sleep(Duration::from_millis(round * 37 % 120)).await;
        }
        store.publish(&queue, &[job("x")], None).await.unwrap();
        store.purge_ready(&queue).await.unwrap();
        if stop.is_cancelled() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_come_and_go_are_neither_reported_nor_miscounted() {
    let f = two_namespaces().await;
    add_many_relays(&f);
    let stop = CancellationToken::new();
    let changes = tokio::spawn(add_and_remove(f.store.at(START), stop.clone()));
    for _ in 0..AUDITS {
        let (_, found) = audit(&f, false).await;
        assert!(!found.iter().any(is_of_a_namespace), "{found:?}");
    }
    damage(&f, &["HINCRBY tg:relays shop/ 5"]);
    let mut repaired = 0;
    for _ in 0..AUDITS {
        let (_, found) = audit(&f, true).await;
        repaired += found.iter().filter(|it| is_of_a_namespace(it)).count();
    }
    stop.cancel();
    changes.await.unwrap();
    assert_eq!(repaired, 1);
    let (_, found) = audit(&f, false).await;
    assert_eq!(texts(&found), [""; 0]);
}

fn is_of_a_namespace(finding: &AuditFinding) -> bool {
    finding.defect.name() == "wrong_namespace_count"
}

/// Found by an attack: calls failed after some of their writes.
#[tokio::test]
async fn a_count_of_a_namespace_that_is_no_number_fails_no_call() {
    let f = two_namespaces().await;
    let overwrite_counts = || {
        let mut connection = f.connection();
        for key in ["tg:0:{8209}:queues", "tg:policies", "tg:relays"] {
            let mut overwrite = redis::cmd("HSET");
            overwrite.arg(key).arg("shop/").arg("abc");
            let _: i64 = overwrite.query(&mut connection).unwrap();
        }
    };
    overwrite_counts();
    publish_to(&f, "shop/c").await;
    set_policy(&f, "shop/c").await;
    set_relay(&f.store, "shop/c", true).await;
    overwrite_counts();
    set_relay(&f.store, "shop/c", false).await;
    let queue = QueueKey::try_from("shop/c").unwrap();
    let reset = f.store.policies().set(&queue, None, None).await;
    assert!(matches!(reset.unwrap(), TableSetOutcome::Done(_)));
    let (_, found) = audit(&f, true).await;
    assert!(
        texts(&found)
            .iter()
            .all(|it| it.starts_with("wrong_namespace_count"))
    );
    let (_, found) = audit(&f, false).await;
    assert_eq!(texts(&found), [""; 0]);
}
