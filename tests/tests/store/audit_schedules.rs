//! The auditor compares definitions of schedules with the ticks in buckets.

use tidegate_core::schedule::Overlap;
use tidegate_store::{AuditFinding, NamespacedName, SchedulesDue, StoreError, TableSetOutcome};

use crate::audit::audit;
use crate::fixture::{START, StoreFixture, TOKEN, fixture};
use crate::schedules::{definition, every, native};

const HOUR: u64 = 3_600_000;
/// Within this time a pump looks at a schedule that is to be checked.
const CHECK_MS: u64 = 10_000;

fn key(name: &str) -> NamespacedName {
    NamespacedName::try_from(&*format!("shop/{name}")).unwrap()
}

/// A bucket with schedules of each hour.
async fn bucket_with(names: &[&str]) -> StoreFixture {
    let f = fixture().await;
    f.store.roster_join(0, TOKEN, HOUR).await.unwrap();
    for name in names {
        let mut times = every(HOUR);
        times.paused = *name == "paused";
        if *name == "ended" {
            times.ends_at_ms = Some(START);
        }
        let hourly = definition(times, Overlap::Keep, &native("x", None));
        let (schedules, key) = (f.store.at(START + 1).schedules(), key(name));
        let set = schedules.set(&key, &f.queue, &hourly, None).await;
        assert!(matches!(set.unwrap(), TableSetOutcome::Done(_)));
    }
    f
}

/// Runs commands, whose words have spaces between them; `b:` is the prefix of the bucket.
pub(crate) fn damage(f: &StoreFixture, commands: &[&str]) {
    let mut connection = f.connection();
    for command in commands {
        let words = command.split(' ');
        let mut words = words.map(|word| word.replace("b:", "tg:0:{8209}:"));
        let mut sent = redis::cmd(&words.next().unwrap());
        words.for_each(|word| {
            sent.arg(word);
        });
        let done: redis::Value = sent.query(&mut connection).unwrap();
        assert_ne!(done, redis::Value::Int(0), "{command} changed nothing");
    }
}

pub(crate) fn texts(found: &[AuditFinding]) -> Vec<String> {
    let texts = found.iter().map(|it| (it.defect.name(), &it.defect));
    texts
        .map(|(name, text)| format!("{name}: {text}"))
        .collect()
}

#[tokio::test]
async fn schedules_with_a_tick_and_without_have_no_findings() {
    let f = bucket_with(&["hourly", "paused", "ended", "unreadable", "checked"]).await;
    let soon = |name: &str| format!("ZADD b:ticks:shop XX CH {} {name}", START + 60_000);
    damage(
        &f,
        &[
            // As a pump leaves it that could not read the definition.
            "HDEL tg:schedules:shop unreadable",
            "HSET tg:schedules:shop unreadable later",
            &soon("unreadable"),
            // As a process leaves it that is about to set another definition.
            "HDEL b:sched:shop/checked revision",
            &soon("checked"),
            &format!("ZADD b:schedules XX CH {} shop", START + 60_000),
        ],
    );
    let (_, found) = audit(&f, false).await;
    assert_eq!(texts(&found), [""; 0]);
}

#[tokio::test]
async fn schedules_that_no_pump_would_look_at_are_found_and_checked() {
    let names = [
        "fine",
        "forgotten",
        "late",
        "lost",
        "older",
        "tickless",
        "undefined",
    ];
    let f = bucket_with(&names).await;
    let far = format!("ZADD b:ticks:shop XX CH GT {} late", START + 2 * HOUR);
    damage(
        &f,
        &[
            "ZREM b:ticks:shop forgotten",
            &far,
            "ZREM b:ticks:shop lost",
            "DEL b:sched:shop/lost",
            "DEL b:sched:shop/older",
            "HSET b:sched:shop/older revision 1.00000000",
            "HDEL b:sched:shop/tickless tick",
            "ZREM b:ticks:shop tickless",
            "HDEL tg:schedules:shop undefined",
        ],
    );
    let expected = [
        "schedule_not_due: schedule shop/forgotten has ticks that are not served in time",
        "schedule_not_due: schedule shop/late has ticks that are not served in time",
        "schedule_not_due: schedule shop/lost has ticks that are not served in time",
        "schedule_not_due: schedule shop/older has ticks that are not served in time",
        "schedule_not_due: schedule shop/tickless has ticks that are not served in time",
        "orphaned_schedule: schedule shop/undefined has no definition",
    ];
    let (summary, found) = audit(&f, false).await;
    assert_eq!(texts(&found), expected);
    assert_eq!(summary.repaired, 0);
    let (summary, found) = audit(&f, true).await;
    assert_eq!(texts(&found), expected);
    assert_eq!(summary.repaired, expected.len() as u64);
    let (_, found) = audit(&f, false).await;
    assert_eq!(texts(&found), [""; 0]);
    let soon = f.store.at(START + 20 + CHECK_MS);
    let due = soon.schedules_due(0, TOKEN, 10).await.unwrap();
    let SchedulesDue::Some { ticks, .. } = due else {
        panic!("the test leads the bucket");
    };
    let mut due: Vec<&str> = ticks.iter().map(|tick| tick.key.name.as_str()).collect();
    due.sort_unstable();
    assert_eq!(due, names[1..]);
}

#[tokio::test]
async fn a_table_of_another_type_and_names_that_are_none_are_reported() {
    let f = bucket_with(&["hourly"]).await;
    damage(
        &f,
        &[
            "DEL tg:schedules:shop",
            "SET tg:schedules:shop x",
            "ZADD b:ticks:shop 9000000000000 a/b",
        ],
    );
    for repair in [false, true] {
        let (summary, found) = audit(&f, repair).await;
        let expected = [
            "wrong_type: tg:schedules:shop: has the wrong type string",
            "unknown_field: tg:0:{8209}:ticks:shop: its field \"shop/a/b\" is not one of Tidegate",
        ];
        assert_eq!(texts(&found), expected);
        assert_eq!(summary.repaired, 0);
    }
}

/// Bytes that are no text, text that is no number, and a key of another type.
#[tokio::test]
async fn damaged_ticks_do_not_hide_the_findings_of_others() {
    let f = bucket_with(&["bytes", "number", "string", "lost"]).await;
    damage(
        &f,
        &[
            "HSET b:sched:shop/number ran abc",
            "DEL b:sched:shop/string",
            "SET b:sched:shop/string x",
            "ZREM b:ticks:shop lost",
            "DEL b:sched:shop/lost",
        ],
    );
    for (key, field) in [
        ("tg:0:{8209}:sched:shop/bytes", &b"revision"[..]),
        ("tg:schedules:shop", &b"\xff"[..]),
    ] {
        let mut set = redis::cmd("HSET");
        set.arg(key).arg(field).arg(&b"\xff"[..]);
        set.exec(&mut f.connection()).unwrap();
    }
    let (_, found) = audit(&f, false).await;
    let found = texts(&found);
    assert!(found.iter().any(|it| it.contains("shop/lost")), "{found:?}");
    assert!(
        found.iter().any(|it| it.contains("shop/string")),
        "{found:?}"
    );
    let ticks = f.store.schedules().ticks(&key("number"), &f.queue).await;
    assert!(matches!(ticks, Err(StoreError::Corrupt(_))), "{ticks:?}");
}
