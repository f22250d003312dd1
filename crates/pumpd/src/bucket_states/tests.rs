use super::*;

const MS: Duration = Duration::from_millis(1);
const FAR: Duration = Duration::from_secs(60);

fn states() -> BucketStates {
    BucketStates::new(1, Duration::from_millis(200))
}

fn due_in(wait: Duration) -> CallSchedule {
    CallSchedule::all_now(Instant::now() + wait)
}

fn server() -> ServerAddress {
    Some("server".into())
}

fn start(states: &mut BucketStates) -> Option<(u16, RunKind, StartedRun)> {
    let (started, _) = states.start(Instant::now())?;
    Some((started.run.bucket, started.run.kind, started))
}

fn end(states: &mut BucketStates, started: &StartedRun, schedule: CallSchedule) {
    assert!(states.end(started, false));
    states.reschedule(started.run.bucket, schedule, server());
}

/// The buckets in the queues, in order.
fn places(states: &mut BucketStates) -> Vec<u16> {
    let queued = states.servers.take_queued();
    for &(bucket, kind) in &queued {
        states.servers.push(server(), bucket, kind);
    }
    queued.into_iter().map(|(bucket, _)| bucket).collect()
}

/// Adds buckets, each of which has run once and has a backlog; nothing else is due.
async fn with_backlogs(buckets: u16) -> BucketStates {
    let mut states = states();
    for bucket in 0..buckets {
        states.add(bucket, due_in(Duration::ZERO));
    }
    for _ in 0..buckets {
        let due = states.next_due().await.unwrap();
        states.queue_due(due, server());
    }
    for bucket in 0..buckets {
        let (_, kind, started) = start(&mut states).unwrap();
        assert_eq!(kind, RunKind::Timely, "{bucket}");
        end(&mut states, &started, due_in(FAR).with_backlog());
    }
    states
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_becomes_due_keeps_the_place_of_its_backlog() {
    let mut states = with_backlogs(3).await;
    let (first, kind, running) = start(&mut states).unwrap();
    assert_eq!(kind, RunKind::Backlog);
    let mut waiting: Vec<u16> = states.all().into_iter().filter(|it| *it != first).collect();
    // The next one becomes due many times before its turn.
    let next = places(&mut states)[0];
    waiting.retain(|it| *it != next);
    for _ in 0..50 {
        states.alarm(next, due_in(MS));
        assert_eq!(states.next_due().await, Some(next));
        states.queue_due(next, server());
        let (bucket, kind, started) = start(&mut states).unwrap();
        assert_eq!((bucket, kind), (next, RunKind::Timely));
        end(&mut states, &started, due_in(FAR).with_backlog());
    }
    assert_eq!(places(&mut states), [next, waiting[0]]);
    end(&mut states, &running, due_in(FAR).with_backlog());
    for expected in [next, waiting[0], first] {
        let (bucket, kind, started) = start(&mut states).unwrap();
        assert_eq!((bucket, kind), (expected, RunKind::Backlog));
        end(&mut states, &started, due_in(FAR));
    }
    assert!(start(&mut states).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_place_without_a_backlog_is_dropped() {
    let mut states = with_backlogs(1).await;
    states.alarm(0, due_in(MS));
    let due = states.next_due().await.unwrap();
    states.queue_due(due, server());
    let (_, kind, started) = start(&mut states).unwrap();
    assert_eq!(kind, RunKind::Timely);
    end(&mut states, &started, due_in(FAR));
    assert!(start(&mut states).is_none());
    // It can have a place again.
    states.alarm(0, due_in(MS).with_backlog());
    let due = states.next_due().await.unwrap();
    states.queue_due(due, server());
    let (_, _, started) = start(&mut states).unwrap();
    end(&mut states, &started, due_in(FAR).with_backlog());
    assert_eq!(start(&mut states).unwrap().1, RunKind::Backlog);
}

#[tokio::test(start_paused = true)]
async fn what_became_due_during_a_run_is_timely_also_without_an_alarm() {
    let mut states = with_backlogs(1).await;
    let (_, _, started) = start(&mut states).unwrap();
    end(&mut states, &started, due_in(Duration::ZERO));
    assert_eq!(start(&mut states).unwrap().1, RunKind::Timely);
}

#[tokio::test(start_paused = true)]
async fn a_run_from_before_a_bucket_was_lost_does_not_end_that_of_the_regained_bucket() {
    let mut states = with_backlogs(1).await;
    let (_, _, old) = start(&mut states).unwrap();
    states.remove(0);
    states.add(0, due_in(MS));
    assert_eq!(states.next_due().await, Some(0));
    states.queue_due(0, server());
    let (_, _, new) = start(&mut states).unwrap();
    states.alarm(0, due_in(MS));
    assert!(!states.end(&old, false));
    end(&mut states, &new, due_in(FAR));
    assert_eq!(states.next_due().await, Some(0), "the alarm counts");
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_is_lost_while_it_waits_leaves_the_wheel() {
    let mut states = with_backlogs(2).await;
    states.remove(0);
    states.remove(1);
    assert_eq!(states.next_due().await, None);
    assert!(start(&mut states).is_none());
}
