//! API keys: the entries of one hash, without the secrets.

use std::collections::BTreeSet;

use futures_util::StreamExt;
use tidegate_core::{ApiKeyId, NamespaceGrant, Scope};
use tidegate_store::{ApiKey, ApiKeyCreated, ApiKeys, Damaged, SecretHash};

use crate::audit::audit;
use crate::fixture::{StoreFixture, fixture, fixture_on_cluster};

fn id(number: usize) -> ApiKeyId {
    ApiKeyId::try_from(&*format!("KEY{number:09}")).unwrap()
}

fn key(description: &str) -> ApiKey {
    ApiKey {
        secret_hash: SecretHash([7; 32]),
        pool: "default".into(),
        namespaces: NamespaceGrant::All,
        scopes: [Scope::Publish, Scope::Admin].into_iter().collect(),
        description: description.into(),
        created_at_ms: 1,
        expires_at_ms: Some(2),
    }
}

fn set_field(fixture: &StoreFixture, field: &[u8], value: &[u8]) {
    let mut set = redis::cmd("HSET");
    set.arg("tg:keys").arg(field).arg(value);
    let _: i64 = set.query(&mut fixture.connection()).unwrap();
}

fn description(entry: Option<Result<ApiKey, Damaged>>) -> Option<String> {
    match entry? {
        Ok(key) => Some(key.description.into()),
        Err(damaged) => panic!("{damaged}"),
    }
}

/// All entries by id, read page by page.
async fn all(keys: &ApiKeys, count: u16) -> BTreeSet<String> {
    let (mut ids, mut cursor) = (BTreeSet::new(), Some(0));
    while let Some(at) = cursor {
        let page = keys.list(at, count).await.unwrap();
        ids.extend(page.entries.into_iter().map(|(id, _)| id));
        cursor = page.next;
    }
    ids
}

async fn a_key_is_created_read_and_deleted(fixture: StoreFixture) {
    let keys = fixture.store.api_keys();
    assert!(keys.get(id(1).as_str()).await.unwrap().entry.is_none());
    assert!(keys.server().is_some());
    let made = keys.create(id(1), &key("one")).await.unwrap();
    assert_eq!(made, ApiKeyCreated::Done);
    let made = keys.create(id(1), &key("two")).await.unwrap();
    assert_eq!(made, ApiKeyCreated::AlreadyExists);
    let answer = keys.get(id(1).as_str()).await.unwrap();
    let now_ms = keys.now_ms().await.unwrap();
    assert!(
        (1..60_000).contains(&(now_ms + 1 - answer.now_ms)),
        "{answer:?}"
    );
    let Some(Ok(found)) = answer.entry else {
        panic!("no key");
    };
    assert_eq!(found.secret_hash.0, [7; 32]);
    assert_eq!((&*found.description, found.expires_at_ms), ("one", Some(2)));
    assert_eq!(found.scopes.to_string(), "publish,admin");
    assert!(keys.delete(id(1).as_str()).await.unwrap());
    assert!(!keys.delete(id(1).as_str()).await.unwrap());
    assert!(keys.get(id(1).as_str()).await.unwrap().entry.is_none());
    assert_eq!(all(&keys, 10).await, BTreeSet::new());
}

#[tokio::test]
async fn a_key_is_created_once_read_and_deleted() {
    a_key_is_created_read_and_deleted(fixture().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_created_once_read_and_deleted_on_a_cluster() {
    a_key_is_created_read_and_deleted(fixture_on_cluster().await).await;
}

#[tokio::test]
async fn the_stored_entry_is_pinned_and_has_no_secret() {
    let fixture = fixture().await;
    let keys = fixture.store.api_keys();
    let _ = keys.create(id(1), &key("one")).await.unwrap();
    let stored: Vec<(String, String)> = redis::cmd("HGETALL")
        .arg("tg:keys")
        .query(&mut fixture.connection())
        .unwrap();
    let expected = format!(
        concat!(
            r#"{{"secret_sha256":"{}","pool":"default","namespace":"*","scopes":["publish","admin"],"#,
            r#""description":"one","created_at_ms":1,"expires_at_ms":2}}"#
        ),
        "07".repeat(32)
    );
    assert_eq!(stored, [("KEY000000001".to_owned(), expected)]);
}

#[tokio::test]
async fn pages_have_all_keys_and_are_bounded() {
    const KEYS: usize = 1500;
    let fixture = fixture().await;
    let keys = fixture.store.api_keys();
    let mut expected = BTreeSet::new();
    for number in 0..KEYS {
        let _ = keys.create(id(number), &key("x")).await.unwrap();
        expected.insert(id(number).as_str().to_owned());
    }
    let page = keys.list(0, 50).await.unwrap();
    assert!(page.next.is_some());
    assert!(page.entries.len() < 200, "{}", page.entries.len());
    assert_eq!(all(&keys, 50).await, expected);
    assert_eq!(all(&keys, 1000).await, expected);
}

#[tokio::test]
async fn many_keys_are_looked_up_in_their_order() {
    const KEYS: usize = 450;
    let fixture = fixture().await;
    let keys = fixture.store.api_keys();
    let ids: Vec<ApiKeyId> = (0..KEYS).map(id).collect();
    for number in (0..KEYS).step_by(2) {
        let text = number.to_string();
        let _ = keys.create(id(number), &key(&text)).await.unwrap();
    }
    let mut looks = keys.get_many(&ids);
    let mut found = 0;
    while let Some(answers) = looks.next().await {
        for (asked, answer) in answers.unwrap() {
            let number = ids.iter().position(|id| *id == asked).unwrap();
            let expected = (number % 2 == 0).then(|| number.to_string());
            assert_eq!(description(answer.entry), expected);
            found += 1;
        }
    }
    assert_eq!(found, KEYS);
    assert_eq!(keys.get_many(&[]).count().await, 0);
}

#[tokio::test]
async fn a_damaged_entry_is_named_and_hides_no_other() {
    let fixture = fixture().await;
    let keys = fixture.store.api_keys();
    let _ = keys.create(id(1), &key("one")).await.unwrap();
    set_field(&fixture, b"KEY000000002", b"{\"secret_sha256\":");
    set_field(&fixture, b"not an id \xff", b"\xff\xfe");
    let page = keys.list(0, 10).await.unwrap();
    assert_eq!(page.entries.len(), 3);
    for (name, entry) in page.entries {
        match entry {
            Ok(_) => assert_eq!(name, id(1).as_str()),
            Err(damaged) => {
                assert!(["KEY000000002", "not an id \u{fffd}"].contains(&&*name));
                assert!(!damaged.reason.is_empty());
            }
        }
    }
    let entry = keys.get("KEY000000002").await.unwrap().entry;
    assert!(matches!(entry, Some(Err(_))));
    let mut looks = keys.get_many(&[id(1), id(2), id(3)]);
    let answers = looks.next().await.unwrap().unwrap();
    let kinds = answers.iter().map(|(_, answer)| match answer.entry {
        Some(Ok(_)) => "key",
        Some(Err(_)) => "damaged",
        None => "none",
    });
    assert_eq!(kinds.collect::<Vec<_>>(), ["key", "damaged", "none"]);
    assert!(keys.delete("KEY000000002").await.unwrap());
    assert!(keys.get("KEY000000002").await.unwrap().entry.is_none());
}

#[tokio::test]
async fn a_key_that_is_no_hash_is_an_error_and_not_an_unknown_key() {
    let fixture = fixture().await;
    let mut set = redis::cmd("SET");
    let _: String = set
        .arg("tg:keys")
        .arg("x")
        .query(&mut fixture.connection())
        .unwrap();
    let keys = fixture.store.api_keys();
    keys.get(id(1).as_str()).await.unwrap_err();
    keys.list(0, 10).await.unwrap_err();
    keys.create(id(1), &key("x")).await.unwrap_err();
}

#[tokio::test]
async fn an_audit_knows_the_hash_of_keys() {
    let fixture = fixture().await;
    let keys = fixture.store.api_keys();
    let _ = keys.create(id(1), &key("one")).await.unwrap();
    let (_, found) = audit(&fixture, false).await;
    // The pump of the tests is on no roster.
    let names = found.iter().map(|it| it.defect.name());
    assert!(names.eq(["orphaned_lock"]), "{found:?}");
}
