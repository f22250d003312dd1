//! Slots move that have tables of the deployment, not jobs.

use std::time::Duration;

use tidegate_core::{ApiKeyId, Namespace, NamespaceGrant, Scope};
use tidegate_store::{
    ApiKey, ApiKeyCreated, NamespacedName, NewRelayReport, SecretHash, Store, StoreConfig,
    StoreError, TableSetOutcome,
};
use tidegate_testkit::cluster_group::PASSWORD;
use tidegate_testkit::{ClusterGroup, webhook_relay};
use tokio::time::sleep;

use crate::turn;

/// Longer than a call takes that does not wait.
const HALF_WAY: Duration = Duration::from_millis(500);

async fn store_on(group: &ClusterGroup) -> Store {
    let mut config = StoreConfig::new("");
    config.cluster = vec![group.servers[1].url()];
    config.password = Some(PASSWORD.to_owned());
    Store::connect(&config).await.unwrap()
}

fn shop() -> Namespace {
    Namespace::try_from("shop").unwrap()
}

/// Makes the call while one of the keys that share the slot of `key` has moved, and the others have not. It has to wait
/// for the end of the move.
async fn while_the_slot_moves<T: Send + 'static>(
    group: &ClusterGroup,
    key: &str,
    call: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> T {
    let slot = group.slot_of(key).await;
    let to = (group.owner_of(slot).await + 1) % 3;
    let on_its_way = group.begin_move(slot, to).await;
    assert_eq!(on_its_way.move_keys(1).await, 1);
    let waiting = tokio::spawn(call);
    sleep(HALF_WAY).await;
    if waiting.is_finished() {
        let error = waiting.await.unwrap().err();
        panic!("did not wait for the move: {error:?}");
    }
    assert!(on_its_way.move_keys(100).await > 0);
    on_its_way.end().await;
    waiting.await.unwrap().unwrap()
}

async fn create(store: Store, id: &str) -> Result<ApiKeyCreated, StoreError> {
    let key = ApiKey {
        secret_hash: SecretHash([7; 32]),
        pool: "default".into(),
        namespaces: NamespaceGrant::One(shop()),
        scopes: [Scope::Publish].into_iter().collect(),
        description: "a test".into(),
        created_at_ms: 1,
        expires_at_ms: None,
    };
    let id = ApiKeyId::try_from(id).unwrap();
    store.api_keys().create(id, &key).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_key_is_created_while_the_slot_of_the_keys_moves() {
    let _turn = turn().await;
    let group = ClusterGroup::start().await;
    let store = store_on(&group).await;
    let made = create(store.clone(), "KEY000000001").await;
    assert_eq!(made.unwrap(), ApiKeyCreated::Done);
    for id in ["KEY000000002", "KEY000000003"] {
        let made = while_the_slot_moves(&group, "tg:keys", create(store.clone(), id)).await;
        assert_eq!(made, ApiKeyCreated::Done);
    }
    let listed = store.api_keys().list_of(&shop(), 0, 10).await.unwrap();
    assert_eq!(listed.entries.len(), 3);
}

/// Sets the relay, and returns its revision.
async fn set(store: &Store, relay: &NamespacedName) -> String {
    let config = webhook_relay("http://a");
    let set = store.relays().set(relay, Some(&config), None).await;
    match set.unwrap() {
        TableSetOutcome::Done(revision) => revision.to_string(),
        other => panic!("{other:?}"),
    }
}

async fn report(store: Store, reports: Vec<NewRelayReport>) -> Result<(), StoreError> {
    store.relays().report(1, &reports).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_is_reported_and_removed_while_the_slot_of_the_relays_moves() {
    let _turn = turn().await;
    let group = ClusterGroup::start().await;
    let store = store_on(&group).await;
    let relay = NamespacedName::try_from("shop/mails").unwrap();
    let revision = set(&store, &relay).await;
    let with_status = |status: &str| {
        vec![NewRelayReport {
            relay: relay.to_string(),
            revision: revision.clone(),
            rank: 0,
            status: status.to_owned(),
        }]
    };
    report(store.clone(), with_status("first")).await.unwrap();
    for status in ["second", "third"] {
        let reporting = report(store.clone(), with_status(status));
        while_the_slot_moves(&group, "tg:relays", reporting).await;
        let reports = store.relays().reports(std::slice::from_ref(&relay)).await;
        let shown = reports.unwrap().pop().unwrap().unwrap();
        assert_eq!(shown.status, status);
    }

    let (there, gone) = (store.clone(), relay.clone());
    let removing = async move { there.relays().set(&gone, None, None).await };
    let removed = while_the_slot_moves(&group, "tg:relays", removing).await;
    assert!(matches!(removed, TableSetOutcome::Done(_)));
    let reports = store.relays().reports(&[relay]).await;
    assert_eq!(reports.unwrap(), [None]);
}
