//! Consumers that hang up while they wait.

use std::time::{Duration, Instant};

use rand::RngExt;
use tidegate_testkit::{QueueClient, RawHttp, Stack, eventually, print_figure, random};

const ROUNDS: usize = 200;
/// A hang-up this long before the publish is known to the server when the job comes.
const KNOWN: Duration = Duration::from_millis(2);
/// Less than half of the time for which the next consumer waits.
const AT_ONCE: Duration = Duration::from_secs(15);

/// Sends a consume with this body over a new connection.
async fn wait(stack: &Stack, queue: &QueueClient, body: &[u8]) -> RawHttp {
    let mut http = RawHttp::connect(stack.api(0).listen()).await;
    let mut headers = vec![("X-Token".to_owned(), queue.token().to_owned())];
    if !body.is_empty() {
        headers.push(("Content-Length".to_owned(), body.len().to_string()));
    }
    let mut head = format!(
        "GET {}?timeout=60&ttr=1 HTTP/1.1\r\nHost: x\r\n",
        queue.path()
    );
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    assert!(http.send(head).await && http.send(body).await);
    http
}

/// Ends the connection in one of the ways in which connections end.
fn hang_up(http: RawHttp, with_reset: bool) {
    if with_reset {
        http.reset();
    } else {
        drop(http);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_hangs_up_leaves_its_seat_at_once() {
    let stack = Stack::builder().start().await;
    let queue = stack.queue("q").await;
    for (body, with_reset) in [
        (0, false),
        (0, true),
        (10, false),
        (10, true),
        (200_000, false),
        (200_000, true),
    ] {
        let gone = wait(&stack, &queue, &vec![b'x'; body]).await;
        stack.api(0).wait_for_waiting_consumers(1).await;
        hang_up(gone, with_reset);
        stack.api(0).wait_for_waiting_consumers(0).await;
        assert_eq!(queue.size().await, 0);
    }
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_hang_up_the_next_consumer_gets_the_job_with_all_attempts() {
    let stack = Stack::builder().start().await;
    let queue = stack.queue("q").await;
    for (body, with_reset) in [
        (0, false),
        (0, true),
        (10, false),
        (10, true),
        (200_000, true),
    ] {
        let gone = wait(&stack, &queue, &vec![b'x'; body]).await;
        stack.api(0).wait_for_waiting_consumers(1).await;
        let consume = queue.with_separate_connections().consume().timeout_s(30);
        let next = tokio::spawn(consume.job());
        stack.api(0).wait_for_waiting_consumers(2).await;
        hang_up(gone, with_reset);
        stack.api(0).wait_for_waiting_consumers(1).await;
        let begin = Instant::now();
        let id = queue.publish("x").tries(3).id().await;
        let job = next.await.unwrap().unwrap();
        assert_eq!((job.id, job.remain_tries), (id.clone(), 2));
        assert!(begin.elapsed() < AT_ONCE, "{:?}", begin.elapsed());
        queue.ack(&id).await;
    }
    stack.finish().await;
}

/// Redis answers the reserve only after its client has hung up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_a_consumer_that_hung_up_return_in_order() {
    /// The call waits for as long as Redis is paused, and scrapes do not.
    const CONFIG: &str = "[pool.default]\ncommand_timeout = \"1m\"\n[metrics]\nrefresh = \"1h\"";
    const CALLS: &str = "tidegate_reserve_rounds_total";
    const LIMIT: Duration = Duration::from_secs(20);
    let stack = Stack::builder().api_config(CONFIG).start().await;
    let (api, queue) = (stack.api(0), stack.queue("q").await);
    let mut ids = Vec::new();
    for body in ["a", "b", "c"] {
        ids.push(queue.publish(body).tries(3).id().await);
    }
    let calls_before = api.metric(CALLS).await;
    stack.redis.pause().unwrap();
    let mut gone = RawHttp::connect(api.listen()).await;
    let request = format!(
        "GET {}?timeout=60&ttr=600&count=3 HTTP/1.1\r\nHost: x\r\nX-Token: {}\r\n\r\n",
        queue.path(),
        queue.token()
    );
    assert!(gone.send(request).await);
    api.wait_for_waiting_consumers(1).await;
    let reserving = async || match api.metric(CALLS).await {
        calls if calls > calls_before => Ok(()),
        calls => Err(calls),
    };
    eventually("the call is in flight", LIMIT, reserving).await;
    drop(gone);
    api.wait_for_waiting_consumers(0).await;
    stack.redis.resume().unwrap();
    let released = async || match api.metric("tidegate_jobs_released_total").await {
        3.0 => Ok(()),
        released => Err(released),
    };
    eventually("the jobs are released", LIMIT, released).await;
    let jobs = queue.consume().count(3).ttr_s(60).jobs().await;
    let jobs: Vec<_> = jobs
        .into_iter()
        .map(|job| (job.id, job.remain_tries))
        .collect();
    assert!(jobs.into_iter().eq(ids.into_iter().map(|id| (id, 2))));
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hang_ups_around_the_publish_lose_no_job() {
    let stack = Stack::builder().start().await;
    let mut random = random("hang-ups");
    let first = stack.queue("q").await;
    let (mut served, mut before) = (0, 0);
    let mut buried_ms = Vec::new();
    for round in 0..ROUNDS {
        let queue = first.sibling(&format!("round-{round}"));
        let body = if random.random_bool(0.3) {
            &b"x=1"[..]
        } else {
            b""
        };
        let gone = wait(&stack, &queue, body).await;
        stack.api(0).wait_for_waiting_consumers(1).await;
        let consume = queue.with_separate_connections().consume().timeout_s(2);
        let next = tokio::spawn(consume.job());
        stack.api(0).wait_for_waiting_consumers(2).await;
        // Less than zero: the hang-up comes first.
        let offset_us: i64 = random.random_range(-15_000..5_000);
        let with_reset = random.random_bool(0.5);
        let (hang_up_at, publish_at) = moments(offset_us);
        let publishing = async {
            tokio::time::sleep_until(publish_at.into()).await;
            let id = queue.publish("x").tries(1).id().await;
            (id, Instant::now())
        };
        let hanging_up = async {
            tokio::time::sleep_until(hang_up_at.into()).await;
            hang_up(gone, with_reset);
            Instant::now()
        };
        let ((id, _), hung_up_at) = tokio::join!(publishing, hanging_up);
        let is_known = hung_up_at + KNOWN <= publish_at;
        before += usize::from(is_known);
        let job = next.await.unwrap();
        if let Some(job) = job {
            assert_eq!(job.id, id);
            queue.ack(&id).await;
            served += 1;
        } else {
            assert!(
                !is_known,
                "the job of round {round} went to a connection that had ended"
            );
            let dead = async || match queue.dead_size().await {
                1 => Ok(()),
                size => Err(size),
            };
            eventually(
                "the job is in the dead letter",
                Duration::from_secs(5),
                dead,
            )
            .await;
            buried_ms.push(offset_us as f64 / 1000.0);
        }
    }
    let buried = buried_ms.len();
    let taken_back = stack.api(0).metric("tidegate_jobs_released_total").await;
    print_figure(&format!(
        "{ROUNDS} hang-ups, {before} of them {KNOWN:?} or more before the publish: {served} jobs went to the \
         next consumer, {taken_back} of them taken back from an ended connection; {buried} needed the end \
         of their lease, those hang-ups came at these ms after the \
         publish: {buried_ms:.1?}"
    ));
    assert_eq!(served + buried, ROUNDS);
    stack.finish().await;
}

fn moments(offset_us: i64) -> (Instant, Instant) {
    let soon = Instant::now() + Duration::from_millis(20);
    let offset = Duration::from_micros(offset_us.unsigned_abs());
    if offset_us < 0 {
        (soon - offset, soon)
    } else {
        (soon + offset, soon)
    }
}
