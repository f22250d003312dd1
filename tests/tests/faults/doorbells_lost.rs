//! Lost messages of Redis delay jobs and lose none. Without a loss no poll is needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidegate_core::JobId;
use tidegate_core::keys::DeploymentKeys;
use tidegate_testkit::{QueueClient, RedisControl, Stack, eventually, print_figure};

const BUCKETS: u32 = 256;
const ROUNDS: usize = 8;
/// Only messages lead to a job within the time of a test.
const NO_POLL: &str = "10m";
const BY_MESSAGE_MAX: Duration = Duration::from_secs(5);
/// The bytes of a process that is registered for a queue.
const ID_BYTES: usize = 8;

/// With polls each second. How long a consumer waits is the limit: without polls the job would not come at all.
async fn stack() -> Stack {
    Stack::builder()
        .api_config("waiters.poll_interval = \"1s\"")
        .pump_config("pump.sleep_max = \"1s\"")
        .start()
        .await
}

async fn stack_without_polls() -> Stack {
    Stack::builder()
        .api_config(&format!("waiters.poll_interval = \"{NO_POLL}\""))
        .pump_config(&format!("pump.sleep_max = \"{NO_POLL}\""))
        .start()
        .await
}

/// The keys of the bucket of a job begin with this.
fn prefix_of(id: &str) -> String {
    let id: JobId = id.parse().expect("a job id");
    let buckets = DeploymentKeys::new(BUCKETS);
    buckets.keys(id.bucket()).prefix().to_owned()
}

fn connection(stack: &Stack) -> redis::Connection {
    let client = redis::Client::open(stack.redis.url()).unwrap();
    client.get_connection().unwrap()
}

/// Ends every subscription, again and again.
async fn cut_subscriptions(url: String, stop: Arc<AtomicBool>) -> usize {
    let mut control = RedisControl::connect(&url).await;
    let mut cut = 0;
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    while !stop.load(Ordering::Relaxed) {
        cut += control.end_subscriptions().await;
        ticks.tick().await;
    }
    cut
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_consumer_gets_its_job_without_doorbells() {
    let stack = stack().await;
    let queue = stack.queue("q").await;
    let stop = Arc::new(AtomicBool::new(false));
    let cutting = tokio::spawn(cut_subscriptions(stack.redis.url(), Arc::clone(&stop)));
    let mut slowest = Duration::ZERO;
    for _ in 0..ROUNDS {
        let waiting = tokio::spawn(
            queue
                .with_separate_connections()
                .consume()
                .timeout_s(20)
                .job(),
        );
        stack.api(0).wait_for_waiting_consumers(1).await;
        let begin = Instant::now();
        let id = queue.publish("x").id().await;
        assert_eq!(waiting.await.unwrap().unwrap().id, id);
        slowest = slowest.max(begin.elapsed());
        queue.ack(&id).await;
    }
    stop.store(true, Ordering::Relaxed);
    let cut = cutting.await.unwrap();
    print_figure(&format!(
        "without doorbells ({cut} subscriptions cut): the slowest of {ROUNDS} came after {slowest:?}"
    ));
    assert!(cut > 0, "no subscription was cut");
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delayed_job_becomes_ready_without_alarms() {
    let stack = stack().await;
    let queue = stack.queue("q").await;
    let stop = Arc::new(AtomicBool::new(false));
    let cutting = tokio::spawn(cut_subscriptions(stack.redis.url(), Arc::clone(&stop)));
    let mut slowest = Duration::ZERO;
    for _ in 0..ROUNDS / 2 {
        let due_at = Instant::now() + Duration::from_secs(1);
        let id = queue.publish("x").delay_s(1).id().await;
        assert_eq!(queue.consume().timeout_s(20).job().await.unwrap().id, id);
        let late = Instant::now().checked_duration_since(due_at);
        slowest = slowest.max(late.expect("never early"));
        queue.ack(&id).await;
    }
    stop.store(true, Ordering::Relaxed);
    cutting.await.unwrap();
    print_figure(&format!(
        "without alarms and doorbells: the latest of {} was {slowest:?} late",
        ROUNDS / 2
    ));
    stack.finish().await;
}

/// The ready list is hidden while the consumer arrives, and restored without a message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poll_finds_the_job_whose_doorbell_was_lost() {
    let stack = stack().await;
    let queue = stack.queue("q").await;
    let id = queue.publish("x").id().await;
    let mut redis = connection(&stack);
    let ready = format!("{}ready:1", prefix_of(&id));
    let hidden = format!("{ready}:hidden");
    let rename = |from: &str, to: &str| redis::cmd("RENAME").arg(from).arg(to).to_owned();
    rename(&ready, &hidden).exec(&mut redis).unwrap();
    let waiting = tokio::spawn(
        queue
            .with_separate_connections()
            .consume()
            .timeout_s(20)
            .job(),
    );
    stack.api(0).wait_for_waiting_consumers(1).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begin = Instant::now();
    rename(&hidden, &ready).exec(&mut redis).unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().id, id);
    print_figure(&format!("found by a poll after {:?}", begin.elapsed()));
    queue.ack(&id).await;
    stack.finish().await;
}

/// The same without polls: the connection for doorbells is cut once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_subscription_finds_the_job_whose_doorbell_was_lost() {
    let stack = stack_without_polls().await;
    let queue = stack.queue("q").await.with_separate_connections();
    let id = queue.publish("x").id().await;
    let mut redis = connection(&stack);
    let ready = format!("{}ready:1", prefix_of(&id));
    let hidden = format!("{ready}:hidden");
    let rename = |from: &str, to: &str| redis::cmd("RENAME").arg(from).arg(to).to_owned();
    rename(&ready, &hidden).exec(&mut redis).unwrap();
    let waiting = tokio::spawn(queue.consume().timeout_s(20).job());
    stack.api(0).wait_for_waiting_consumers(1).await;
    until_registered(&stack, &queue, 1).await;
    rename(&hidden, &ready).exec(&mut redis).unwrap();
    let mut control = RedisControl::connect(&stack.redis.url()).await;
    assert!(control.end_subscriptions().await > 0);
    assert_eq!(waiting.await.unwrap().expect("a job").id, id);
    stack.finish().await;
}

/// A process is paused between its doorbell and its call, as one that is killed there. Consumers of another process,
/// which is registered and was not rung, get the jobs: of several queues those of the first one before the others, and
/// of a single queue by a poll.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_doorbell_that_a_paused_process_does_not_follow_costs_a_poll_and_changes_no_order() {
    // Longer than this process waits without consumers before it withdraws.
    let polls = "waiters.poll_interval = \"4s\"";
    let stack = Stack::builder().apis(2).pumps(0).api_config(polls);
    let stack = stack.start().await;
    let first = stack.queue("a").await;
    let (second, single) = (first.sibling("b"), first.sibling("c"));
    for (number, queue) in [&first, &single].into_iter().enumerate() {
        let there = queue.on_api(stack.api(1)).with_separate_connections();
        tokio::spawn(there.consume().timeout_s(60).job());
        stack.api(1).wait_for_waiting_consumers(number + 1).await;
    }
    // Its checks register the process before this one.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let registers_here = async |queue: &QueueClient| {
        assert!(queue.consume().timeout_s(1).job().await.is_none());
    };
    registers_here(&first).await;
    stack.api(1).pause();
    let id = first.publish("first").id().await;
    let other = second.publish("second").id().await;
    let both = async || first.consume_from(&["a", "b"]).timeout_s(20).job().await;
    let in_order = [both().await, both().await];
    assert_eq!(in_order.map(|job| job.unwrap().id), [id, other]);

    registers_here(&single).await;
    let id = single.publish("x").id().await;
    let job = single.consume().timeout_s(20).job().await;
    assert_eq!(job.expect("a poll finds it").id, id);
    stack.api(1).resume();
    stack.finish().await;
}

/// The same without polls, with a second job: it rings the other process, since the first job has been ready for a
/// while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_job_rings_again_if_a_process_does_not_follow_its_doorbell() {
    let polls = format!("waiters.poll_interval = \"{NO_POLL}\"");
    let stack = Stack::builder().apis(2).pumps(0).api_config(&polls);
    let stack = stack.start().await;
    let queue = stack.queue("q").await.with_separate_connections();
    for number in [1, 0] {
        let there = queue.on_api(stack.api(number));
        tokio::spawn(there.consume().timeout_s(60).count(2).jobs());
        stack.api(number).wait_for_waiting_consumers(1).await;
        // The paused process is registered before the other one, so it is rung first.
        until_registered(&stack, &queue, 2 - number).await;
    }
    stack.api(1).pause();
    queue.publish("1").id().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(stack.totals().await.ready, 1, "its doorbell is lost");
    queue.publish("2").id().await;
    eventually("both are delivered", BY_MESSAGE_MAX, async || {
        match stack.totals().await {
            totals if totals.leased == 2 => Ok(()),
            totals => Err(format!("{totals:?}")),
        }
    })
    .await;
    stack.api(1).resume();
    stack.finish().await;
}

/// Both are registered, and one of them stops: the next job must not ring it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_stops_is_no_longer_registered() {
    let polls = format!("waiters.poll_interval = \"{NO_POLL}\"");
    let stack = Stack::builder().apis(2).pumps(0).api_config(&polls);
    let stack = stack.start().await;
    let queue = stack.queue("q").await.with_separate_connections();
    let begin = |number: usize| {
        let there = queue.on_api(stack.api(number));
        tokio::spawn(there.consume().timeout_s(20).send())
    };
    let stopped = begin(1);
    stack.api(1).wait_for_waiting_consumers(1).await;
    until_registered(&stack, &queue, 1).await;
    let waiting = begin(0);
    stack.api(0).wait_for_waiting_consumers(1).await;
    until_registered(&stack, &queue, 2).await;
    assert!(stack.api(1).stop(BY_MESSAGE_MAX).await.success());
    stopped.await.unwrap().unwrap().expect(404);
    until_registered(&stack, &queue, 1).await;
    let id = queue.publish("x").id().await;
    let job = waiting.await.unwrap().unwrap().expect(200);
    assert_eq!(job.json()["job_id"], id);
    stack.finish().await;
}

/// Waits until this many processes are registered for the jobs of a queue.
async fn until_registered(stack: &Stack, queue: &QueueClient, processes: usize) {
    let name = format!("{}/{}", queue.namespace(), queue.name());
    let mut redis = connection(stack);
    let what = format!("{processes} processes are registered");
    eventually(&what, BY_MESSAGE_MAX, async || {
        let mut keys = redis::cmd("KEYS");
        let keys: Vec<String> = keys.arg("tg:*:waiting:*").query(&mut redis).unwrap();
        let mut ids = Vec::new();
        for key in &keys {
            let mut get = redis::cmd("HGET");
            let found: Vec<u8> = get.arg(key).arg(&name).query(&mut redis).unwrap();
            ids.extend(found);
        }
        match ids.len() / ID_BYTES {
            registered if registered == processes => Ok(()),
            registered => Err(registered),
        }
    })
    .await;
}

/// The subscriptions are cut while calls are refused: the call that follows is refused, and neither a message nor a
/// poll leads to the job later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_call_is_repeated_without_a_message() {
    let stack = stack_without_polls().await;
    let queue = stack.queue("q").await;
    let id = queue.publish("x").id().await;
    let mut redis = connection(&stack);
    let mut run = |command: &[&str]| {
        let (name, arguments) = command.split_first().unwrap();
        let mut command = redis::cmd(name);
        command.arg(arguments).exec(&mut redis).unwrap();
    };
    let ready = format!("{}ready:1", prefix_of(&id));
    let hidden = format!("{ready}:hidden");
    run(&["RENAME", &ready, &hidden]);
    let waiting = tokio::spawn(
        queue
            .with_separate_connections()
            .consume()
            .timeout_s(20)
            .job(),
    );
    stack.api(0).wait_for_waiting_consumers(1).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    run(&["ACL", "SETUSER", "default", "-evalsha"]);
    run(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    run(&["RENAME", &hidden, &ready]);
    assert!(!waiting.is_finished());
    run(&["ACL", "SETUSER", "default", "+evalsha"]);
    let begin = Instant::now();
    assert_eq!(waiting.await.unwrap().expect("a job").id, id);
    let waited = begin.elapsed();
    assert!(waited < BY_MESSAGE_MAX, "{waited:?}");
    queue.ack(&id).await;
    stack.finish().await;
}

/// A process without consumers is rung, and cannot pass the doorbell on, since its calls are refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_doorbell_that_could_not_be_passed_on_is_passed_on_later() {
    is_passed_on(Leaves::BeforeTheDoorbell).await;
}

/// A process is rung, its call is refused, and its consumer leaves before the call is repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_doorbell_whose_call_failed_is_passed_on_when_its_consumer_leaves() {
    is_passed_on(Leaves::AfterTheDoorbell).await;
}

/// When the consumer of the process leaves that is rung.
#[derive(Clone, Copy, PartialEq)]
enum Leaves {
    BeforeTheDoorbell,
    AfterTheDoorbell,
}

async fn is_passed_on(leaves: Leaves) {
    let polls = format!("waiters.poll_interval = \"{NO_POLL}\"");
    let stack = Stack::builder().apis(2).pumps(0).api_config(&polls);
    let stack = stack.start().await;
    let queue = stack.queue("q").await.with_separate_connections();
    let id = queue.publish("x").id().await;
    let (mut redis, prefix) = (connection(&stack), prefix_of(&id));
    let (ready, hidden) = (format!("{prefix}ready:1"), format!("{prefix}hidden"));
    let rename = |from: &str, to: &str| redis::cmd("RENAME").arg(from).arg(to).to_owned();
    let acl = |right: &str| {
        let mut acl = redis::cmd("ACL");
        acl.arg("SETUSER").arg("default").arg(right).to_owned()
    };
    rename(&ready, &hidden).exec(&mut redis).unwrap();
    // Both are registered, this one first; only the other one has a consumer.
    let there = queue.on_api(stack.api(1)).with_separate_connections();
    let leaving = match leaves {
        Leaves::BeforeTheDoorbell => {
            assert!(there.consume().timeout_s(1).job().await.is_none());
            None
        }
        Leaves::AfterTheDoorbell => {
            let leaving = tokio::spawn(there.consume().timeout_s(5).send());
            stack.api(1).wait_for_waiting_consumers(1).await;
            Some(leaving)
        }
    };
    let waiting = tokio::spawn(queue.consume().timeout_s(20).job());
    stack.api(0).wait_for_waiting_consumers(1).await;
    let name = format!("{}/{}", queue.namespace(), queue.name());
    let mut keys = redis::cmd("KEYS");
    let keys: Vec<String> = keys.arg("tg:*:waiting:*").query(&mut redis).unwrap();
    let registered = eventually("both are registered", BY_MESSAGE_MAX, async || {
        let mut get = redis::cmd("HGET");
        let ids: Vec<u8> = get
            .arg(&keys[0])
            .arg(&name)
            .query(&mut connection(&stack))
            .unwrap();
        match ids.len() {
            length if length == 2 * ID_BYTES => Ok(ids),
            length => Err(length),
        }
    });
    let registered = registered.await;
    let (rung, kept) = registered.split_at(ID_BYTES);
    acl("-evalsha").exec(&mut redis).unwrap();
    rename(&hidden, &ready).exec(&mut redis).unwrap();
    // As a script rings it.
    let mut keep = redis::cmd("HSET");
    keep.arg(&keys[0])
        .arg(&name)
        .arg(kept)
        .exec(&mut redis)
        .unwrap();
    let channel = [format!("{prefix}bell:").as_bytes(), rung].concat();
    let mut ring = redis::cmd("SPUBLISH");
    let listeners: u64 = ring.arg(channel).arg(&name).query(&mut redis).unwrap();
    assert_eq!(listeners, 1);
    if let Some(leaving) = leaving {
        // Its answer says that the call failed, or that there was no job.
        let answer = leaving.await.unwrap().unwrap();
        assert_ne!(answer.status, 200, "{answer}");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished());
    acl("+evalsha").exec(&mut redis).unwrap();
    let job = tokio::time::timeout(BY_MESSAGE_MAX, waiting).await;
    assert_eq!(job.expect("in time").unwrap().expect("a job").id, id);
    stack.finish().await;
}

/// The timers of the queue are hidden until the pump has looked for them, and restored without a message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pump_finds_the_job_whose_alarm_was_lost() {
    let stack = stack().await;
    let queue = stack.queue("q").await;
    let id = queue.publish("x").delay_s(1).id().await;
    let mut redis = connection(&stack);
    let due = format!("{}due", prefix_of(&id));
    redis::cmd("DEL").arg(&due).exec(&mut redis).unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let begin = Instant::now();
    let mut back = redis::cmd("ZADD");
    back.arg(&due).arg(0).arg(1).exec(&mut redis).unwrap();
    let job = queue.consume().timeout_s(20).job().await;
    assert_eq!(job.unwrap().id, id);
    print_figure(&format!("found by a poll after {:?}", begin.elapsed()));
    queue.ack(&id).await;
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_doorbell_is_enough_to_wake_a_consumer() {
    let stack = stack_without_polls().await;
    let queue = stack.queue("q").await;
    let waiting = tokio::spawn(
        queue
            .with_separate_connections()
            .consume()
            .timeout_s(20)
            .job(),
    );
    stack.api(0).wait_for_waiting_consumers(1).await;
    let begin = Instant::now();
    let id = queue.publish("x").id().await;
    assert_eq!(waiting.await.unwrap().expect("a job").id, id);
    assert!(begin.elapsed() < BY_MESSAGE_MAX, "{:?}", begin.elapsed());
    queue.ack(&id).await;
    stack.finish().await;
}

/// After the first job the bucket has no more work until an alarm announces some.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alarm_is_enough_to_wake_a_pump() {
    let stack = stack_without_polls().await;
    let queue = stack.queue("q").await;
    for delay_s in [1, 2] {
        let begin = Instant::now();
        let id = queue.publish("x").delay_s(delay_s).id().await;
        let job = queue.consume().timeout_s(20).job().await;
        assert_eq!(job.expect("a job").id, id);
        let late = begin.elapsed() - Duration::from_secs(delay_s);
        assert!(late < BY_MESSAGE_MAX, "{late:?}");
        queue.ack(&id).await;
    }
    stack.finish().await;
}

/// A run moves 32 jobs at first. No message comes while the rest of a backlog is due.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pump_continues_until_a_backlog_is_moved() {
    const JOBS: usize = 64;
    let stack = stack_without_polls().await;
    let queue = stack.queue("q").await;
    let bodies: Vec<String> = (0..JOBS).map(|number| number.to_string()).collect();
    queue.publish_bulk(&bodies).delay_s(1).ids().await;
    let all_ready = async || match queue.size().await {
        size if size == JOBS as u64 => Ok(()),
        size => Err(size),
    };
    eventually("all jobs are ready", BY_MESSAGE_MAX, all_ready).await;
    stack.finish().await;
}
