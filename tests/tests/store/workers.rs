//! The workers of a namespace, as processes store them.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Namespace;
use tidegate_store::Store;

use crate::fixture::{START, fixture};

const MINUTE: Duration = Duration::from_secs(60);

fn shop() -> Namespace {
    Namespace::try_from("shop").unwrap()
}

async fn set(store: &Store, process: &str, workers: &[(&str, &str)]) {
    let workers = workers
        .iter()
        .map(|(name, value)| (Arc::from(*name), (*value).to_owned()));
    let workers: Vec<(Arc<str>, String)> = workers.collect();
    let shop = shop();
    let setting = store.workers_set(&shop, process, &workers, MINUTE);
    setting.await.unwrap();
}

/// Names and values of all entries, and in how many pages they were read.
async fn list(store: &Store) -> (Vec<(String, String)>, usize) {
    let (mut entries, mut pages, mut after) = (Vec::new(), 0, String::new());
    loop {
        let page = store.workers_list(&shop(), &after).await.unwrap();
        let of_page = page.entries.into_iter();
        entries.extend(of_page.map(|entry| (entry.name, entry.value)));
        pages += 1;
        match page.next {
            Some(next) => after = next,
            None => return (entries, pages),
        }
    }
}

#[tokio::test]
async fn an_entry_replaces_the_one_of_the_same_worker_and_process() {
    let f = fixture().await;
    let store = f.store.at(START);
    set(&store, "p1", &[("b", "1"), ("a", "2"), ("a b", "3")]).await;
    set(&store, "p2", &[("a", "4"), ("a-", "5")]).await;
    set(&store, "p1", &[("a", "6 {}")]).await;
    let entries = list(&store).await.0;
    let entries: Vec<(&str, &str)> = entries.iter().map(|it| (&*it.0, &*it.1)).collect();
    let expected = [
        ("a", "6 {}"),
        ("a", "4"),
        ("a b", "3"),
        ("a-", "5"),
        ("b", "1"),
    ];
    assert_eq!(entries, expected);
    // The list continues behind a name, with all processes.
    let behind = store.workers_list(&shop(), "a").await.unwrap();
    assert_eq!(behind.entries[0].name, "a b");
    let other = Namespace::try_from("other").unwrap();
    let of_other = store.workers_list(&other, "").await.unwrap();
    assert!(of_other.entries.is_empty());
}

#[tokio::test]
async fn entries_count_for_their_time_and_are_removed_by_calls_of_other_processes() {
    let f = fixture().await;
    let many: Vec<String> = (0..30).map(|number| format!("w{number:02}")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|name| (&**name, "{}")).collect();
    set(&f.store.at(START), "dead", &many).await;
    let store = f.store.at(START + 59_000);
    set(&store, "live", &[("w05", "x")]).await;
    let (entries, pages) = list(&store).await;
    assert_eq!((entries.len(), pages), (31, 2));
    let first = store.workers_list(&shop(), "").await.unwrap();
    assert_eq!(first.now_ms, START + 59_000);
    assert_eq!(first.entries[0].left, Duration::from_secs(1));

    let store = f.store.at(START + 60_000);
    assert_eq!(list(&store).await.0, [("w05".to_owned(), "x".to_owned())]);
    // Each call looks at five entries.
    let mut connection = f.connection();
    let mut calls = 0;
    loop {
        let mut count = redis::cmd("ZCARD");
        let count: usize = count.arg("tg:workers:shop").query(&mut connection).unwrap();
        if count == 1 {
            break;
        }
        assert!(calls < 1000, "{count} are left");
        set(&store, "live", &[("w05", "x")]).await;
        calls += 1;
    }
    assert!(calls > 3, "{calls}");
    let mut ttl = redis::cmd("PTTL");
    let ttl: i64 = ttl.arg("tg:workers:shop").query(&mut connection).unwrap();
    assert!((1..=60_000).contains(&ttl), "{ttl}");
}
