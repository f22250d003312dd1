//! Tasks of a running wheel, with the real clock and real files.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests fail by a panic, and may block"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tidegate_wheel::{
    Completion, File, Memory, Persistence, ScheduleError, StartError, TimedTask, Wheel,
    WheelBuilder,
};
use tokio::sync::{Barrier, mpsc};
use tokio::time::{sleep, timeout};

const MS: Duration = Duration::from_millis(1);
/// Far more than any of the tests needs.
const LONG: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Remind {
    number: usize,
    /// How often it runs again.
    repeats: usize,
}

impl TimedTask for Remind {
    const TYPE: &'static str = "remind";
}

#[derive(Debug, Serialize, Deserialize)]
struct Close;

impl TimedTask for Close {
    const TYPE: &'static str = "close";
}

fn remind(number: usize) -> Remind {
    Remind { number, repeats: 0 }
}

/// A wheel whose tasks are sent to the receiver.
fn sending() -> (WheelBuilder<Memory>, mpsc::UnboundedReceiver<Remind>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let builder = Wheel::builder().tick(MS).executor(move |task: Remind| {
        let sender = sender.clone();
        async move {
            let _ = sender.send(task);
        }
    });
    (builder, receiver)
}

/// A delay of more ticks than 64 bits count.
#[tokio::test]
async fn the_longest_delay_does_not_end_at_once() {
    let (builder, mut ran) = sending();
    let wheel = builder.start().await.unwrap();
    let longest = Duration::from_millis(i64::MAX as u64);
    let far = wheel.schedule(remind(1), longest).await;
    wheel.schedule(remind(2), 50 * MS).await.unwrap();
    let first = timeout(LONG, ran.recv()).await.unwrap().unwrap();
    assert_eq!(first.number, 2);
    match far {
        Ok(far) => assert!(wheel.cancel(far).await.unwrap()),
        Err(error) => assert!(matches!(error, ScheduleError::TooFar(_)), "{error}"),
    }
}

#[tokio::test]
async fn a_task_runs_once_and_not_early() {
    let (builder, mut ran) = sending();
    let wheel = builder.start().await.unwrap();
    let began = Instant::now();
    wheel.schedule(remind(7), 50 * MS).await.unwrap();
    let task = timeout(LONG, ran.recv()).await.unwrap().unwrap();
    assert!(began.elapsed() >= 50 * MS, "{:?}", began.elapsed());
    assert_eq!(task.number, 7);
    assert_eq!(wheel.waiting(), 0);
    sleep(50 * MS).await;
    assert!(ran.try_recv().is_err());
}

#[tokio::test]
async fn a_cancelled_task_does_not_run() {
    let (builder, mut ran) = sending();
    let wheel = builder.start().await.unwrap();
    let first = wheel.schedule(remind(1), 3000 * MS).await.unwrap();
    wheel.schedule(remind(2), 3200 * MS).await.unwrap();
    assert!(wheel.cancel(first).await.unwrap());
    assert!(!wheel.cancel(first).await.unwrap());
    let task = timeout(LONG, ran.recv()).await.unwrap().unwrap();
    assert_eq!(task.number, 2);
}

#[tokio::test]
async fn an_earlier_task_wakes_the_clock() {
    let (builder, mut ran) = sending();
    let wheel = builder.start().await.unwrap();
    wheel.schedule(remind(1), LONG).await.unwrap();
    sleep(20 * MS).await;
    wheel.schedule(remind(2), 10 * MS).await.unwrap();
    let task = timeout(LONG / 2, ran.recv()).await.unwrap().unwrap();
    assert_eq!(task.number, 2);
    assert_eq!(wheel.waiting(), 1);
}

#[tokio::test]
async fn a_task_runs_again_if_its_run_says_so() {
    let (sender, mut ran) = mpsc::unbounded_channel();
    let runs = Arc::new(AtomicUsize::new(0));
    let executor = move |task: Remind| {
        let (sender, run) = (sender.clone(), runs.fetch_add(1, Ordering::Relaxed));
        async move {
            let _ = sender.send(run);
            match run < task.repeats {
                true => Completion::RunAgainIn(5 * MS),
                false => Completion::Done,
            }
        }
    };
    let wheel = Wheel::builder()
        .tick(MS)
        .executor(executor)
        .start()
        .await
        .unwrap();
    let task = Remind {
        number: 1,
        repeats: 2,
    };
    wheel.schedule(task, Duration::ZERO).await.unwrap();
    for run in 0..3 {
        assert_eq!(timeout(LONG, ran.recv()).await.unwrap(), Some(run));
    }
    sleep(50 * MS).await;
    assert!(ran.try_recv().is_err());
}

/// Runs of one thread, all of whose places are taken by tasks that block it.
#[tokio::test]
async fn blocking_tasks_do_not_delay_the_clock() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let executor = move |_: Remind| {
        let released = Arc::clone(&released);
        // Blocks the thread of the runtime until the sender is dropped.
        async move {
            let _ = released.lock().recv_timeout(LONG);
        }
    };
    let builder = Wheel::builder().tick(MS).concurrency(2);
    let wheel = builder.executor(executor).start().await.unwrap();
    for number in 0..4 {
        wheel
            .schedule(remind(number), Duration::ZERO)
            .await
            .unwrap();
    }
    wheel.schedule(remind(9), 400 * MS).await.unwrap();
    // The thread of the test is that of the runtime, which stays blocked until another one has seen that no task waits.
    let watched = wheel.clone();
    let clock = std::thread::spawn(move || {
        let began = Instant::now();
        while watched.waiting() > 0 && began.elapsed() < LONG / 2 {
            std::thread::sleep(MS);
        }
        let waiting = watched.waiting();
        drop(release);
        waiting
    });
    let waiting = tokio::task::spawn_blocking(move || clock.join().unwrap());
    let waiting = timeout(LONG, waiting).await.unwrap().unwrap();
    assert_eq!(waiting, 0, "tasks wait for runs that block the thread");
}

#[tokio::test]
async fn no_more_tasks_run_than_allowed() {
    const ALLOWED: u32 = 3;
    const TASKS: usize = 20;
    let (ended, mut ends) = mpsc::unbounded_channel();
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, highest) = (Arc::clone(&running), Arc::clone(&most));
    // The first tasks end once as many run as are allowed: all of them, however slow the machine is.
    let all_places_taken = Arc::new(Barrier::new(ALLOWED as usize));
    let executor = move |task: Remind| {
        let (running, most) = (Arc::clone(&counted), Arc::clone(&highest));
        let ended = ended.clone();
        let all_places_taken = Arc::clone(&all_places_taken);
        async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            if task.number < ALLOWED as usize {
                all_places_taken.wait().await;
            }
            sleep(10 * MS).await;
            running.fetch_sub(1, Ordering::SeqCst);
            let _ = ended.send(());
        }
    };
    let builder = Wheel::builder().tick(MS).concurrency(ALLOWED);
    let wheel = builder.executor(executor).start().await.unwrap();
    for number in 0..TASKS {
        wheel
            .schedule(remind(number), Duration::ZERO)
            .await
            .unwrap();
    }
    // Due tasks that have no place yet neither wait nor run, so the numbers of the wheel do not say that all have
    // ended.
    for _ in 0..TASKS {
        timeout(LONG, ends.recv()).await.unwrap().unwrap();
    }
    wheel.shutdown().await.unwrap();
    assert_eq!(most.load(Ordering::SeqCst), ALLOWED as usize);
}

#[tokio::test]
async fn shutdown_waits_for_runs_and_starts_no_other() {
    let ended = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ended);
    let executor = move |_: Remind| {
        let ended = Arc::clone(&counted);
        async move {
            sleep(100 * MS).await;
            ended.fetch_add(1, Ordering::SeqCst);
        }
    };
    let builder = Wheel::builder().tick(MS).concurrency(1);
    let wheel = builder.executor(executor).start().await.unwrap();
    for number in 0..3 {
        wheel
            .schedule(remind(number), Duration::ZERO)
            .await
            .unwrap();
    }
    while wheel.running() == 0 {
        sleep(MS).await;
    }
    timeout(LONG, wheel.shutdown()).await.unwrap().unwrap();
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    let refused = wheel.schedule(remind(4), MS).await;
    assert!(
        matches!(refused, Err(ScheduleError::Stopped)),
        "{refused:?}"
    );
    // Again, as two parts of a program may do.
    wheel.shutdown().await.unwrap();
}

#[tokio::test]
async fn tasks_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks");
    let (builder, mut ran) = sending();
    let wheel = builder
        .persistence(File::open(&path).unwrap())
        .start()
        .await
        .unwrap();
    wheel.schedule(remind(1), Duration::ZERO).await.unwrap();
    let cancelled = wheel.schedule(remind(2), LONG).await.unwrap();
    // Long enough for the restart, however slow the machine is.
    let delay = Duration::from_secs(3);
    let due = SystemTime::now() + delay;
    wheel.schedule(remind(3), delay).await.unwrap();
    wheel.cancel(cancelled).await.unwrap();
    assert_eq!(timeout(LONG, ran.recv()).await.unwrap().unwrap().number, 1);
    wheel.shutdown().await.unwrap();
    drop(wheel);

    let (builder, mut ran) = sending();
    let wheel = builder
        .persistence(File::open(&path).unwrap())
        .start()
        .await
        .unwrap();
    assert_eq!(wheel.waiting(), 1);
    assert_eq!(timeout(LONG, ran.recv()).await.unwrap().unwrap().number, 3);
    assert!(SystemTime::now() >= due);
    wheel.shutdown().await.unwrap();
    let (builder, _ran) = sending();
    let wheel = builder
        .persistence(File::open(&path).unwrap())
        .start()
        .await
        .unwrap();
    assert_eq!(wheel.waiting(), 0);
}

#[tokio::test]
async fn a_task_that_was_running_when_the_process_ended_runs_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("tasks"), folder.path().join("copy"));
    let (started, mut starts) = mpsc::unbounded_channel();
    let executor = move |_: Remind| {
        let started = started.clone();
        async move {
            let _ = started.send(());
            sleep(LONG).await;
        }
    };
    let builder = Wheel::builder().tick(MS).executor(executor);
    let wheel = builder
        .persistence(File::open(&path).unwrap())
        .start()
        .await
        .unwrap();
    wheel.schedule(remind(5), Duration::ZERO).await.unwrap();
    timeout(LONG, starts.recv()).await.unwrap();
    // What a process that is killed now leaves behind.
    std::fs::copy(&path, &copy).unwrap();
    let (builder, mut ran) = sending();
    let again = builder
        .persistence(File::open(&copy).unwrap())
        .start()
        .await
        .unwrap();
    assert_eq!(timeout(LONG, ran.recv()).await.unwrap().unwrap().number, 5);
    again.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_task_that_panics_runs_again_and_delays_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks");
    let runs = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&runs);
    let executor = move |task: Remind| {
        let mut runs = recorded.lock();
        runs.push((task.number, Instant::now()));
        let panics = task.number == 1 && runs.iter().filter(|(number, _)| *number == 1).count() < 3;
        async move { assert!(!panics, "this panic is part of the test") }
    };
    let wheel = Wheel::builder()
        .tick(MS)
        .concurrency(1)
        .panic_delay(100 * MS)
        .executor(executor)
        .persistence(File::open(&path).unwrap())
        .start()
        .await
        .unwrap();
    for number in 0..3 {
        wheel
            .schedule(remind(number), Duration::ZERO)
            .await
            .unwrap();
    }
    let all_ran = async {
        while runs.lock().len() < 5 {
            sleep(MS).await;
        }
    };
    timeout(LONG, all_ran).await.unwrap();
    timeout(LONG, wheel.shutdown()).await.unwrap().unwrap();
    let runs = runs.lock().clone();
    let mut numbers: Vec<usize> = runs.iter().map(|(number, _)| *number).collect();
    // Tasks of one tick run in any order.
    numbers[..3].sort_unstable();
    assert_eq!(numbers, [0, 1, 2, 1, 1]);
    let panicked = runs.iter().find(|(number, _)| *number == 1).unwrap();
    assert!(runs[3].1 - panicked.1 >= 100 * MS);
    // The last run has not panicked: the task is deleted.
    let saved = File::open(&path).unwrap().load().await.unwrap();
    assert!(saved.is_empty(), "{saved:?}");
}

/// The process ends between the panic and the next run.
#[tokio::test]
async fn a_task_that_has_panicked_stays_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks");
    let has_run = Arc::new(AtomicBool::new(false));
    let running = Arc::clone(&has_run);
    let executor = move |task: Remind| {
        running.store(true, Ordering::SeqCst);
        async move { assert_eq!(task.number, 0, "this panic is part of the test") }
    };
    let wheel = Wheel::builder()
        .tick(MS)
        .executor(executor)
        .persistence(File::open(&path).unwrap())
        .start()
        .await
        .unwrap();
    wheel.schedule(remind(5), Duration::ZERO).await.unwrap();
    let waits_again = async {
        // It does not wait while it runs.
        while !has_run.load(Ordering::SeqCst) || wheel.waiting() == 0 {
            sleep(MS).await;
        }
    };
    timeout(LONG, waits_again).await.unwrap();
    wheel.shutdown().await.unwrap();
    let (builder, mut ran) = sending();
    let again = builder.persistence(File::open(&path).unwrap());
    let again = again.start().await.unwrap();
    assert_eq!(again.waiting(), 1);
    assert!(ran.try_recv().is_err(), "its delay continues");
    again.shutdown().await.unwrap();
}

#[tokio::test]
async fn mistakes_are_reported_at_the_start() {
    let error =
        |builder: WheelBuilder<Memory>| async { builder.start().await.unwrap_err().to_string() };
    let wheel = || Wheel::builder().executor(|_: Remind| async {});
    assert!(
        error(wheel().tick(MS / 2))
            .await
            .contains("between 1ms and 1min")
    );
    assert!(
        error(wheel().tick(61_000 * MS))
            .await
            .contains("between 1ms and 1min")
    );
    assert!(error(wheel().concurrency(0)).await.contains("concurrency"));
    assert!(
        error(wheel().executor(|_: Remind| async {}))
            .await
            .contains("two executors")
    );

    let started = wheel().start().await.unwrap();
    let refused = started.schedule(Close, MS).await.unwrap_err();
    assert!(
        matches!(refused, ScheduleError::NoExecutor("close")),
        "{refused}"
    );
    let refused = started
        .schedule(remind(1), Duration::MAX)
        .await
        .unwrap_err();
    assert!(matches!(refused, ScheduleError::TooFar(_)), "{refused}");
}

#[tokio::test]
async fn saved_tasks_without_an_executor_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks");
    let (builder, _ran) = sending();
    let wheel = builder
        .persistence(File::open(&path).unwrap())
        .start()
        .await
        .unwrap();
    wheel.schedule(remind(1), LONG).await.unwrap();
    wheel.shutdown().await.unwrap();
    let other = Wheel::builder().executor(|_: Close| async {});
    let error = other
        .persistence(File::open(&path).unwrap())
        .start()
        .await
        .unwrap_err();
    assert!(
        matches!(error, StartError::NoExecutor { count: 1, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("\"remind\""), "{error}");
}
