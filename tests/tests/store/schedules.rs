//! Ticks of schedules: each is published once, by the definition that counts.

use serde_json::value::RawValue;
use tidegate_core::schedule::{CatchUpRule, Overlap};
use tidegate_core::v1::consume::Outcome;
use tidegate_core::v1::publish::PublishResult;
use tidegate_core::{NativeOptions, NewJob, QueueKey, RecordExtension};
use tidegate_store::{
    Alarm, Claim, LoadSlotOutcome, NamespacedName, PublishRefusal, PumpVerb, ScheduleDefinition,
    ScheduleTick, ScheduleTimes, SchedulesDue, TableRevision, TableSetOutcome, TickOutcome,
    TickPublish,
};
use tidegate_testkit::consistency;
use tokio::time::{Duration, timeout};

use crate::fixture::{START, StoreFixture, TOKEN, fixture, job};

pub(crate) const MINUTE: u64 = 60_000;
/// The prefix of the keys of the only bucket.
const PREFIX: &str = "tg:0:{8209}:";

pub(crate) fn key() -> NamespacedName {
    NamespacedName::try_from("shop/daily").unwrap()
}

pub(crate) fn every(every_ms: u64) -> ScheduleTimes {
    ScheduleTimes {
        cron: None,
        time_zone: None,
        every_ms: Some(every_ms),
        starts_at_ms: Some(START),
        ends_at_ms: None,
        paused: false,
    }
}

pub(crate) fn native(body: &str, retain_ms: Option<u32>) -> NewJob {
    let extension = RecordExtension {
        retain_ms,
        ..RecordExtension::default()
    };
    NewJob {
        tries: 0,
        native: Some(Box::new(NativeOptions {
            extension,
            ..NativeOptions::default()
        })),
        ..job(body)
    }
}

pub(crate) fn definition(
    times: ScheduleTimes,
    overlap: Overlap,
    job: &NewJob,
) -> ScheduleDefinition {
    let queue = QueueKey::try_from("shop/orders").unwrap();
    let shown = RawValue::from_string("{}".to_owned()).unwrap();
    ScheduleDefinition::new(&queue, times, overlap, CatchUpRule::default(), job, shown)
}

pub(crate) fn each_minute(overlap: Overlap, body: &str) -> ScheduleDefinition {
    definition(every(MINUTE), overlap, &native(body, None))
}

/// The job of a tick of each minute.
pub(crate) fn publish_of<'a>(
    tick: &'a ScheduleTick,
    queue: &QueueKey,
    by: &'a ScheduleDefinition,
) -> TickPublish<'a> {
    TickPublish {
        tick,
        queue: queue.clone(),
        definition: by,
        publish_ms: tick.tick_ms,
        next_ms: tick.tick_ms.map(|ms| ms + MINUTE),
        max_jobs: None,
    }
}

impl StoreFixture {
    pub(crate) fn query<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query(&mut self.connection()).unwrap()
    }

    pub(crate) async fn set_schedule(
        &self,
        now_ms: u64,
        new: &ScheduleDefinition,
    ) -> TableRevision {
        let schedules = self.store.at(now_ms).schedules();
        match schedules.set(&key(), &self.queue, new, None).await.unwrap() {
            TableSetOutcome::Done(revision) => revision,
            other => panic!("{other:?}"),
        }
    }

    /// The ticks that are due, and when the next one is.
    pub(crate) async fn ticks(&self, now_ms: u64) -> (Vec<ScheduleTick>, Option<u64>) {
        match self
            .store
            .at(now_ms)
            .schedules_due(0, TOKEN, 10)
            .await
            .unwrap()
        {
            SchedulesDue::Some {
                ticks, next_in_ms, ..
            } => (ticks, next_in_ms.map(|ms| ms + now_ms)),
            SchedulesDue::NotLeading => panic!("the test leads the bucket"),
        }
    }

    async fn publish_tick(
        &self,
        now_ms: u64,
        tick: &ScheduleTick,
        by: &ScheduleDefinition,
        max_jobs: Option<u64>,
    ) -> TickOutcome {
        let publish = TickPublish {
            max_jobs,
            ..publish_of(tick, &self.queue, by)
        };
        let store = self.store.at(now_ms);
        let published = store.schedule_publish(0, &[publish]).await.unwrap();
        published.outcomes[0]
    }

    /// Publishes the one tick that is due.
    async fn run_tick(&self, now_ms: u64, by: &ScheduleDefinition) -> TickOutcome {
        let (ticks, _) = self.ticks(now_ms).await;
        assert_eq!(ticks.len(), 1, "{ticks:?}");
        self.publish_tick(now_ms, &ticks[0], by, None).await
    }
}

#[tokio::test]
async fn a_tick_is_published_once_however_many_pumps_have_read_it() {
    let f = fixture().await;
    let daily = each_minute(Overlap::Allow, "a");
    f.set_schedule(START + 1, &daily).await;
    assert_eq!(
        f.ticks(START + MINUTE - 1).await,
        (vec![], Some(START + MINUTE))
    );
    let (ticks, next_ms) = f.ticks(START + MINUTE).await;
    assert_eq!((ticks[0].tick_ms, next_ms), (Some(START + MINUTE), None));
    let created = TickOutcome::Published(Ok(PublishResult::Created));
    assert_eq!(
        f.publish_tick(START + MINUTE, &ticks[0], &daily, None)
            .await,
        created
    );
    for _ in 0..2 {
        let again = f
            .publish_tick(START + MINUTE, &ticks[0], &daily, None)
            .await;
        assert_eq!(again, TickOutcome::Moved);
    }
    let jobs = f
        .store
        .at(START + MINUTE)
        .reserve(&f.queue, &[Claim::new(10, 1000)])
        .await
        .unwrap();
    let jobs: Vec<_> = jobs.jobs.into_iter().flatten().collect();
    assert_eq!(jobs.len(), 1);
    let attribute = |name: &str| {
        let found = jobs[0].attributes.iter().find(|(other, _)| other == name);
        found.unwrap().1.clone()
    };
    assert_eq!(attribute("tidegate-schedule"), "daily");
    assert_eq!(attribute("tidegate-tick-ms"), (START + MINUTE).to_string());
    assert_eq!(
        f.ticks(START + MINUTE).await,
        (vec![], Some(START + 2 * MINUTE))
    );
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn overlap_says_what_happens_to_a_job_that_is_not_done() {
    use PublishResult::{Created, Exists, Replaced, Rerun};
    for (overlap, while_ready, while_leased, ready) in [
        (Overlap::Keep, Exists, Exists, vec![]),
        (Overlap::Replace, Replaced, Rerun, vec![]),
        (Overlap::Allow, Created, Created, vec!["a", "a"]),
    ] {
        let f = fixture().await;
        let daily = each_minute(overlap, "a");
        f.set_schedule(START + 1, &daily).await;
        let run = |tick: u64| f.run_tick(START + tick * MINUTE, &daily);
        assert_eq!(
            run(1).await,
            TickOutcome::Published(Ok(Created)),
            "{overlap:?}"
        );
        assert_eq!(
            run(2).await,
            TickOutcome::Published(Ok(while_ready)),
            "{overlap:?}"
        );
        let now_ms = START + 2 * MINUTE;
        assert_eq!(
            f.reserve(now_ms, 1, 10 * MINUTE).await,
            ["a"],
            "{overlap:?}"
        );
        assert_eq!(
            run(3).await,
            TickOutcome::Published(Ok(while_leased)),
            "{overlap:?}"
        );
        assert_eq!(
            f.reserve(now_ms + MINUTE, 10, 1000).await,
            ready,
            "{overlap:?}"
        );
        consistency::check(&f.redis.url()).await;
    }
}

#[tokio::test]
async fn a_job_that_is_done_is_not_in_the_way_while_its_result_is_kept() {
    let f = fixture().await;
    let daily = definition(every(MINUTE), Overlap::Keep, &native("a", Some(3_600_000)));
    f.set_schedule(START + 1, &daily).await;
    for tick in 1..4 {
        let now_ms = START + tick * MINUTE;
        let created = TickOutcome::Published(Ok(PublishResult::Created));
        assert_eq!(f.run_tick(now_ms, &daily).await, created, "{tick}");
        let store = f.store.at(now_ms);
        let reserved = store
            .reserve(&f.queue, &[Claim::new(1, 1000)])
            .await
            .unwrap();
        let id = reserved.jobs[0][0].id;
        let acked = store.ack(&f.queue, id, Some(1)).await.unwrap();
        assert_eq!(acked.outcome, Outcome::DONE);
    }
    // A tick that is left out does not delete the result.
    let now_ms = START + 4 * MINUTE;
    let (ticks, _) = f.ticks(now_ms).await;
    let full = f.publish_tick(now_ms, &ticks[0], &daily, Some(0)).await;
    assert_eq!(full, TickOutcome::Published(Err(PublishRefusal::QueueFull)));
    let stats = f.store.at(now_ms).stats(&f.queue).await.unwrap();
    assert_eq!(stats.done, 1);
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn the_same_times_keep_a_tick_that_is_due_and_other_times_do_not() {
    let f = fixture().await;
    f.set_schedule(START + 1, &each_minute(Overlap::Keep, "a"))
        .await;
    let late_ms = START + MINUTE + 5;
    let changed = each_minute(Overlap::Keep, "b");
    let revision = f.set_schedule(late_ms, &changed).await;
    let (ticks, _) = f.ticks(late_ms).await;
    assert_eq!(
        ticks[0].tick_ms,
        Some(START + MINUTE),
        "the tick is still due"
    );
    assert_eq!(ticks[0].revision, revision.to_string().into_bytes());
    let other = definition(every(2 * MINUTE), Overlap::Keep, &native("c", None));
    f.set_schedule(late_ms, &other).await;
    assert_eq!(f.ticks(late_ms).await, (vec![], Some(START + 2 * MINUTE)));
    // What was read before the change publishes nothing.
    assert_eq!(
        f.publish_tick(late_ms, &ticks[0], &changed, None).await,
        TickOutcome::Moved
    );
    let mut paused = every(2 * MINUTE);
    paused.paused = true;
    f.set_schedule(
        late_ms,
        &definition(paused, Overlap::Keep, &native("c", None)),
    )
    .await;
    assert_eq!(f.ticks(START + 10 * MINUTE).await, (vec![], None));
    // Times of a pause are not caught up.
    f.set_schedule(START + 10 * MINUTE + 1, &other).await;
    assert_eq!(
        f.ticks(START + 10 * MINUTE + 1).await,
        (vec![], Some(START + 12 * MINUTE))
    );
}

#[tokio::test]
async fn a_job_of_an_old_definition_is_not_published() {
    let f = fixture().await;
    let old = each_minute(Overlap::Keep, "old");
    f.set_schedule(START + 1, &old).await;
    let (ticks, _) = f.ticks(START + MINUTE).await;
    let new = each_minute(Overlap::Keep, "new");
    f.set_schedule(START + MINUTE, &new).await;
    let published = f.publish_tick(START + MINUTE, &ticks[0], &old, None).await;
    assert_eq!(published, TickOutcome::Moved);
    let created = TickOutcome::Published(Ok(PublishResult::Created));
    assert_eq!(f.run_tick(START + MINUTE, &new).await, created);
    f.expect(START + MINUTE, &["new"]).await;
}

#[tokio::test]
async fn a_schedule_that_is_removed_publishes_nothing() {
    let f = fixture().await;
    let daily = each_minute(Overlap::Keep, "a");
    let revision = f.set_schedule(START + 1, &daily).await;
    let (ticks, _) = f.ticks(START + MINUTE).await;
    let schedules = f.store.at(START + MINUTE).schedules();
    let removed = schedules
        .remove(&key(), Some(&f.queue), Some(revision))
        .await
        .unwrap();
    assert_eq!(removed, TableSetOutcome::Done(TableRevision::default()));
    assert_eq!(
        f.publish_tick(START + MINUTE, &ticks[0], &daily, None)
            .await,
        TickOutcome::Moved
    );
    assert_eq!(f.ticks(START + 9 * MINUTE).await, (vec![], None));
    assert!(schedules.get(&key()).await.unwrap().is_none());
    let names: Vec<String> = f.query(&["KEYS", "tg:0:*sched*"]);
    assert_eq!(names, [""; 0]);
}

#[tokio::test]
async fn a_process_that_died_between_its_two_steps_leaves_a_hint_that_leads_to_the_definition() {
    let f = fixture().await;
    let daily = each_minute(Overlap::Keep, "a");
    let revision = f.set_schedule(START + 1, &daily).await;
    // As if the last step was lost.
    assert_eq!(
        f.query::<u64>(&["DEL", &format!("{PREFIX}sched:shop/daily")]),
        1
    );
    let (ticks, _) = f.ticks(START + MINUTE).await;
    assert_eq!((ticks[0].tick_ms, &*ticks[0].revision), (None, &b""[..]));
    let store = f.store.at(START + MINUTE + 1);
    let set = async |known: &str| {
        let known = Some(known.as_bytes());
        store
            .schedule_set(&key(), &f.queue, &daily, revision, known)
            .await
            .unwrap()
    };
    assert!(!set("7.00000000").await, "another revision is known");
    assert!(set("").await);
    assert_eq!(
        f.ticks(START + MINUTE + 1).await,
        (vec![], Some(START + 2 * MINUTE))
    );
    // A hint without a definition is dropped, unless a definition has come meanwhile.
    let (ticks, _) = f.ticks(START + 2 * MINUTE).await;
    f.set_schedule(START + 2 * MINUTE, &daily).await;
    store.schedule_forget(0, &ticks[0]).await.unwrap();
    let (ticks, _) = f.ticks(START + 2 * MINUTE).await;
    assert_eq!(ticks.len(), 1);
    store.schedule_forget(0, &ticks[0]).await.unwrap();
    assert_eq!(f.ticks(START + 2 * MINUTE).await, (vec![], None));
}

/// The process that changes a schedule may die before the last step, and the new ticks may be earlier.
#[tokio::test]
async fn a_change_leaves_a_hint_even_if_the_next_tick_is_late() {
    let (f, key) = (fixture().await, key());
    let hourly = definition(every(60 * MINUTE), Overlap::Keep, &native("a", None));
    let revision = f.set_schedule(START + 1, &hourly).await;
    let next_ms = START + 60 * MINUTE;
    assert_eq!(f.ticks(START + MINUTE).await, (vec![], Some(next_ms)));
    // The first step only: the table has another revision.
    let none = Some(TableRevision::default());
    let schedules = f.store.at(START + MINUTE).schedules();
    let refused = schedules.set(&key, &f.queue, &hourly, none).await.unwrap();
    assert_eq!(refused, TableSetOutcome::VersionMismatch(Some(revision)));
    let looked_at_ms = START + MINUTE + 10_000;
    let (ticks, _) = f.ticks(looked_at_ms).await;
    assert_eq!(ticks.len(), 1, "a pump looks at the definition");
    assert_eq!(ticks[0].tick_ms, Some(next_ms), "its tick stays");
    // What the pump does if the definition is as the bucket knows it.
    let known = Some(ticks[0].revision.as_slice());
    let store = f.store.at(looked_at_ms);
    let set = store.schedule_set(&key, &f.queue, &hourly, revision, known);
    assert!(set.await.unwrap());
    assert_eq!(f.ticks(looked_at_ms).await, (vec![], Some(next_ms)));
    // A hint is never later than the tick.
    let schedules = f.store.at(next_ms - 5).schedules();
    let refused = schedules.set(&key, &f.queue, &hourly, none).await.unwrap();
    assert_eq!(refused, TableSetOutcome::VersionMismatch(Some(revision)));
    assert_eq!(f.ticks(next_ms).await.0.len(), 1);
}

#[tokio::test]
async fn a_full_queue_leaves_a_tick_out() {
    let f = fixture().await;
    let daily = each_minute(Overlap::Allow, "a");
    f.set_schedule(START + 1, &daily).await;
    for (tick, outcome) in [
        (1, Ok(PublishResult::Created)),
        (2, Err(PublishRefusal::QueueFull)),
    ] {
        let now_ms = START + tick * MINUTE;
        let (ticks, _) = f.ticks(now_ms).await;
        let published = f.publish_tick(now_ms, &ticks[0], &daily, Some(1)).await;
        assert_eq!(published, TickOutcome::Published(outcome));
    }
    assert_eq!(
        f.ticks(START + 2 * MINUTE).await,
        (vec![], Some(START + 3 * MINUTE))
    );
    f.expect(START + 2 * MINUTE, &["a"]).await;
}

#[tokio::test]
async fn a_large_payload_is_stored_outside_of_the_record() {
    let f = fixture().await;
    let body: String = (0..4000).map(|i| format!("{i},")).collect();
    let daily = each_minute(Overlap::Replace, &body);
    f.set_schedule(START + 1, &daily).await;
    for tick in 1..4 {
        let _ = f.run_tick(START + tick * MINUTE, &daily).await;
    }
    consistency::check(&f.redis.url()).await;
    f.expect(START + 3 * MINUTE, &[&body]).await;
}

#[tokio::test]
async fn an_earlier_tick_sends_an_alarm_and_load_slot_returns_the_first_tick() {
    let f = fixture().await;
    let mut alarms = f.store.alarms();
    assert_eq!(alarms.next().await, Some(Alarm::Resubscribed));
    let next_tick =
        async |now_ms: u64| match f.store.at(now_ms).load_slot(0, TOKEN, 10).await.unwrap() {
            LoadSlotOutcome::Done {
                next_tick_in_ms, ..
            } => next_tick_in_ms,
            LoadSlotOutcome::NotLeading => panic!("the test leads the bucket"),
        };
    assert_eq!(next_tick(START).await, None);
    f.set_schedule(START + 20_000, &each_minute(Overlap::Keep, "a"))
        .await;
    let mut found = Vec::new();
    while found.len() < 2 {
        let alarm = timeout(Duration::from_secs(10), alarms.next())
            .await
            .unwrap();
        if let Some(Alarm::Earlier {
            verb: PumpVerb::Schedules,
            in_ms,
            ..
        }) = alarm
        {
            found.push(in_ms);
        }
    }
    assert_eq!(
        found,
        [10_000, 40_000],
        "to look at the definition, and the tick"
    );
    assert_eq!(next_tick(START + 30_000).await, Some(30_000));
    assert_eq!(next_tick(START + 2 * MINUTE).await, Some(0));
}

#[tokio::test]
async fn an_audit_knows_the_keys_of_schedules_and_a_damaged_name_is_dropped() {
    let f = fixture().await;
    let daily = each_minute(Overlap::Keep, "a");
    f.set_schedule(START + 1, &daily).await;
    let _ = f.run_tick(START + MINUTE, &daily).await;
    f.store.lease_release(0, TOKEN).await.unwrap();
    let (_, found) = crate::audit::audit(&f, false).await;
    assert_eq!(found, []);
    let _ = f.store.lease_acquire(0, TOKEN, &[]).await.unwrap();
    let (schedules, ticks_key) = (format!("{PREFIX}schedules"), format!("{PREFIX}ticks:shop"));
    for (index, name) in [
        (&schedules, &b"no name"[..]),
        (&schedules, b"\xff"),
        (&schedules, b"empty"),
        (&schedules, b"shop"),
        (&ticks_key, b"\xff"),
        (&ticks_key, b"undefined"),
    ] {
        let mut damage = redis::cmd("ZADD");
        damage.arg(index).arg(1).arg(name);
        damage.exec(&mut f.connection()).unwrap();
    }
    // A pump looks at the names that might be some, and forgets them.
    for _ in 0..2 {
        for tick in f.ticks(START + MINUTE).await.0 {
            let store = f.store.at(START + MINUTE);
            store.schedule_forget(0, &tick).await.unwrap();
        }
    }
    let (ticks, next_ms) = f.ticks(START + MINUTE).await;
    assert_eq!((ticks, next_ms), (vec![], Some(START + 2 * MINUTE)));
    for index in [&schedules, &ticks_key] {
        assert_eq!(f.query::<u64>(&["ZCARD", index]), 1, "{index}");
    }
}

/// What a pump does with a damaged tick does not lead to the same tick again.
#[tokio::test]
async fn a_damaged_tick_is_replaced() {
    let f = fixture().await;
    let daily = each_minute(Overlap::Keep, "a");
    let of_schedule = format!("{PREFIX}sched:shop/daily");
    for (field, value) in [
        ("tick", &b"-5"[..]),
        ("tick", b"1.5e12"),
        ("tick", b"abc"),
        ("tick", b"007"),
        ("tick", b"18446744073709551616"),
        ("revision", b"\xff\xfe"),
    ] {
        let revision = f.set_schedule(START + 1, &daily).await;
        let mut damage = redis::cmd("HSET");
        damage.arg(&of_schedule).arg(field).arg(value);
        damage.exec(&mut f.connection()).unwrap();
        let (ticks, _) = f.ticks(START + MINUTE).await;
        assert_eq!(ticks.len(), 1);
        let known = Some(ticks[0].revision.as_slice());
        let store = f.store.at(START + MINUTE + 1);
        let key = key();
        let set = store.schedule_set(&key, &f.queue, &daily, revision, known);
        assert!(set.await.unwrap(), "{field} {value:?}");
        let (due, next_ms) = f.ticks(START + MINUTE + 1).await;
        let due: Vec<_> = due.iter().map(|tick| tick.tick_ms).collect();
        // The tick of the same rule is still due if the revision was damaged.
        let expected = match field {
            "revision" => (vec![Some(START + MINUTE)], None),
            _ => (vec![], Some(START + 2 * MINUTE)),
        };
        assert_eq!((due, next_ms), expected, "{field} {value:?}");
        assert_eq!(f.query::<u64>(&["DEL", &of_schedule]), 1);
    }
}

#[tokio::test]
async fn a_tick_that_is_deferred_stays_and_lets_others_pass() {
    let f = fixture().await;
    let daily = each_minute(Overlap::Keep, "a");
    f.set_schedule(START + 1, &daily).await;
    let (ticks, _) = f.ticks(START + MINUTE).await;
    let at = |ms| f.store.at(START + MINUTE + ms);
    let pause = Duration::from_secs(1);
    at(0).schedule_defer(0, &ticks[0], pause).await.unwrap();
    assert_eq!(f.ticks(START + MINUTE + 999).await.0, []);
    assert_eq!(f.ticks(START + MINUTE + 1_000).await.0, ticks);
    // One that was set again meanwhile is not deferred, and one that is gone does not come back.
    f.set_schedule(START + MINUTE + 1_000, &daily).await;
    at(1_000).schedule_defer(0, &ticks[0], pause).await.unwrap();
    assert_eq!(f.ticks(START + MINUTE + 1_000).await.0.len(), 1);
    let (ticks, _) = f.ticks(START + MINUTE + 1_000).await;
    at(1_000).schedule_forget(0, &ticks[0]).await.unwrap();
    at(1_000).schedule_defer(0, &ticks[0], pause).await.unwrap();
    assert_eq!(f.ticks(START + 9 * MINUTE).await, (vec![], None));
}
