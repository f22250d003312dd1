//! What daemons report of relays.

use tidegate_core::v1::relay::RelayConfig;
use tidegate_store::{NamespacedName, NewRelayReport, RELAY_REPORT_TTL, Table, TableSetOutcome};
use tidegate_testkit::{RedisControl, webhook_relay};

use crate::audit::audit;
use crate::fixture::{START, fixture};

fn key(name: &str) -> NamespacedName {
    NamespacedName::try_from(&*format!("shop/{name}")).unwrap()
}

/// Sets a relay to this URL, or removes it, and returns its revision.
async fn set(relays: &Table<RelayConfig>, name: &str, url: Option<&str>) -> String {
    let config = url.map(webhook_relay);
    let set = relays.set(&key(name), config.as_ref(), None).await;
    match set.unwrap() {
        TableSetOutcome::Done(revision) => revision.to_string(),
        other => panic!("{other:?}"),
    }
}

async fn report(relays: &Table<RelayConfig>, process: u64, name: &str, revision: &str, rank: u8) {
    let report = NewRelayReport {
        relay: key(name).to_string(),
        revision: revision.to_owned(),
        rank,
        status: format!("{process} reports {rank}"),
    };
    relays.report(process, &[report]).await.unwrap();
}

async fn stored(relays: &Table<RelayConfig>, name: &str) -> Option<String> {
    let mut reports = relays.reports(&[key(name)]).await.unwrap();
    Some(reports.pop().unwrap()?.status)
}

#[tokio::test]
async fn the_worst_report_about_a_relay_is_kept_while_it_counts() {
    let f = fixture().await;
    let relays = f.store.at(START).relays();
    let revision = set(&relays, "a", Some("http://a")).await;
    for (process, rank, kept) in [
        (1, 0, "1 reports 0"),
        // Of equals always the same one.
        (2, 0, "1 reports 0"),
        (2, 1, "2 reports 1"),
        (1, 0, "2 reports 1"),
        (1, 2, "1 reports 2"),
        // A process replaces its own.
        (1, 0, "1 reports 0"),
        (2, 1, "2 reports 1"),
    ] {
        report(&relays, process, "a", &revision, rank).await;
        let shown = stored(&relays, "a").await;
        assert_eq!(shown.as_deref(), Some(kept), "{process} {rank}");
    }
    let ttl = u64::try_from(RELAY_REPORT_TTL.as_millis()).unwrap();
    for (after, kept) in [(ttl - 1, "2 reports 1"), (ttl, "1 reports 0")] {
        let later = f.store.at(START + after).relays();
        report(&later, 1, "a", &revision, 0).await;
        assert_eq!(stored(&relays, "a").await.as_deref(), Some(kept), "{after}");
    }

    // A report about an earlier revision does not count.
    let changed = set(&relays, "a", Some("http://b")).await;
    report(&relays, 1, "a", &revision, 2).await;
    assert_eq!(stored(&relays, "a").await.as_deref(), Some("1 reports 0"));
    report(&relays, 2, "a", &changed, 0).await;
    assert_eq!(stored(&relays, "a").await.as_deref(), Some("2 reports 0"));
}

#[tokio::test]
async fn the_report_about_a_relay_is_removed_with_it() {
    let f = fixture().await;
    let relays = f.store.relays();
    let mut control = RedisControl::connect(&f.redis.url()).await;
    for name in ["a", "b"] {
        let revision = set(&relays, name, Some("http://a")).await;
        report(&relays, 1, name, &revision, 0).await;
    }
    assert_eq!(set(&relays, "a", None).await, "0");
    let reports = control.field_names("tg:{tg:relays}:reports").await;
    assert_eq!(reports, ["shop/b"]);

    // A report that a daemon makes before it knows.
    report(&relays, 1, "a", "1.00000000", 0).await;
    assert_eq!(stored(&relays, "a").await, None);
}

#[tokio::test]
async fn an_audit_knows_the_reports() {
    let f = fixture().await;
    let relays = f.store.relays();
    let revision = set(&relays, "a", Some("http://a")).await;
    report(&relays, 1, "a", &revision, 0).await;
    let (_, found) = audit(&f, false).await;
    // The pump of the tests is on no roster.
    let names = found.iter().map(|it| it.defect.name());
    assert!(names.eq(["orphaned_lock"]), "{found:?}");
}
