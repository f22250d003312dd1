//! `GET /api/:namespace/:queue?timeout=…`: waiting for a job.

use std::time::{Duration, Instant};

use tidegate_testkit::{QueueClient, RawHttp, ReceivedJob, eventually};
use tokio::task::JoinHandle;

use crate::session::{session, session_alone};
use crate::target::better;

/// Seconds of a wait that ends because of an event. Its whole duration would show that the event did not end it.
const LONG_S: u64 = 60;
/// Less than [`LONG_S`], and far more than a slow machine takes.
const WOKEN_WITHIN: Duration = Duration::from_secs(30);

/// A consumer that waits on a separate connection; returns its job and how long it waited.
fn waiting(queue: &QueueClient, timeout_s: u64) -> JoinHandle<(Option<ReceivedJob>, Duration)> {
    let consume = queue
        .with_separate_connections()
        .consume()
        .timeout_s(timeout_s);
    tokio::spawn(async move {
        let begin = Instant::now();
        let job = consume.job().await;
        (job, begin.elapsed())
    })
}

#[tokio::test]
async fn a_wait_without_a_job_ends_at_its_timeout() {
    let session = session().await;
    let queue = session.queue("nothing");
    for count in [1, 2] {
        let begin = Instant::now();
        let answer = queue
            .consume()
            .timeout_s(1)
            .count(count)
            .send()
            .await
            .unwrap();
        let waited = begin.elapsed();
        assert_eq!(answer.expect(404).text(), r#"{"msg":"no job available"}"#);
        assert!(
            waited >= Duration::from_secs(1),
            "came back early: {waited:?}"
        );
        assert!(
            waited < Duration::from_secs(11),
            "came back late: {waited:?}"
        );
    }
}

#[tokio::test]
async fn a_wait_ends_when_a_job_is_published() {
    let session = session().await;
    let queue = session.queue("published");
    let consumer = waiting(&queue, LONG_S);
    let id = queue.publish("x").delay_s(1).id().await;
    let (job, waited) = consumer.await.unwrap();
    assert_eq!(job.unwrap().id, id);
    assert!(waited < WOKEN_WITHIN, "{waited:?}");
}

#[tokio::test]
async fn a_wait_for_several_jobs_ends_with_the_first() {
    let session = session().await;
    let queue = session.queue("several");
    queue.publish("x").delay_s(1).id().await;
    let begin = Instant::now();
    let jobs = queue.consume().timeout_s(LONG_S).count(5).jobs().await;
    assert_eq!(jobs.len(), 1);
    assert!(begin.elapsed() < WOKEN_WITHIN);
}

#[tokio::test]
async fn a_wait_on_several_queues_ends_with_a_job_of_any() {
    let session = session().await;
    let queue = session.queue("c");
    queue.publish("x").delay_s(1).id().await;
    let begin = Instant::now();
    let job = queue
        .consume_from(&["a", "b", "c"])
        .timeout_s(LONG_S)
        .job()
        .await;
    assert_eq!(job.unwrap().queue, "c");
    assert!(begin.elapsed() < WOKEN_WITHIN);
}

#[tokio::test]
async fn a_wait_is_not_ended_by_other_queues() {
    let session = session().await;
    let (queue, other) = (session.queue("mine"), session.queue("other"));
    let consumer = waiting(&queue, 1);
    other.publish("x").id().await;
    let (job, waited) = consumer.await.unwrap();
    assert!(job.is_none());
    assert!(waited >= Duration::from_secs(1));
    assert_eq!(other.size().await, 1);
}

#[tokio::test]
async fn a_wait_ends_when_a_lease_expires() {
    let session = session().await;
    let queue = session.queue("lease");
    queue.publish("x").tries(2).id().await;
    queue.consume().ttr_s(1).job().await.unwrap();
    let (job, waited) = waiting(&queue, LONG_S).await.unwrap();
    assert_eq!(job.unwrap().remain_tries, 0);
    assert!(waited < WOKEN_WITHIN, "{waited:?}");
}

#[tokio::test]
async fn a_wait_ends_when_a_dead_job_is_respawned() {
    let session = session().await;
    let queue = session.queue("respawned");
    let id = queue.publish("x").id().await;
    queue.consume().ttr_s(0).job().await.unwrap();
    let dead = async || match queue.dead_size().await {
        1 => Ok(()),
        size => Err(size),
    };
    eventually("the job is dead", Duration::from_secs(5), dead).await;
    let consumer = waiting(&queue, LONG_S);
    assert_eq!(queue.respawn(1, 0).await, 1);
    assert_eq!(consumer.await.unwrap().0.unwrap().id, id);
}

#[tokio::test]
async fn a_deleted_job_does_not_end_a_wait() {
    let session = session().await;
    let queue = session.queue("deleted");
    let id = queue.publish("x").delay_s(1).id().await;
    let consumer = waiting(&queue, 2);
    queue.ack(&id).await;
    let (job, waited) = consumer.await.unwrap();
    assert!(job.is_none());
    assert!(waited >= Duration::from_secs(2), "{waited:?}");
}

#[tokio::test]
async fn a_consumer_that_hangs_up_uses_no_try_of_the_next_job() {
    if !better("a consumer that hangs up while it waits is noticed at once") {
        return;
    }
    let session = session_alone().await;
    let queue = session.queue("gone");
    let mut http = RawHttp::connect(session.target.public).await;
    let token = [("X-Token".to_owned(), queue.token().to_owned())];
    let target = format!("{}?timeout=30", queue.path());
    http.request("GET", &target, &token, b"").await;
    session.target.until_waiting(1).await;
    drop(http);
    session.target.until_waiting(0).await;
    let id = queue.publish("x").tries(1).id().await;
    assert_eq!(queue.consume().job().await.unwrap().id, id);
    session.target.check().await;
}

#[tokio::test]
async fn waiting_consumers_are_served_in_the_order_in_which_they_came() {
    let session = session_alone().await;
    let queue = session.queue("order");
    let mut consumers = Vec::new();
    for number in 1..=8 {
        consumers.push(waiting(&queue, 30));
        session.target.until_waiting(number).await;
    }
    let bodies: Vec<String> = (1..=8).map(|number| number.to_string()).collect();
    let ids = queue.publish_bulk(&bodies).ids().await;
    for (consumer, id) in consumers.into_iter().zip(ids) {
        assert_eq!(consumer.await.unwrap().0.unwrap().id, id);
    }
    session.target.check().await;
}

#[tokio::test]
async fn many_waiting_consumers_get_one_job_each() {
    let session = session().await;
    let queue = session.queue("many");
    let consumers: Vec<_> = (0..50).map(|_| waiting(&queue, 30)).collect();
    let bodies: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    let mut published = queue.publish_bulk(&bodies).ids().await;
    let mut found = Vec::new();
    for consumer in consumers {
        found.push(consumer.await.unwrap().0.unwrap().id);
    }
    published.sort();
    found.sort();
    assert_eq!(found, published);
    session.target.check().await;
}

/// A consumer waits for two queues, and a job arrives in each at the same time. The job that it does not take must be
/// available to the next consumer, at once and with all its tries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_on_several_queues_takes_a_job_of_one_only() {
    let session = session_alone().await;
    let (a, b) = (
        session.queue("a"),
        session.queue("b").with_separate_connections(),
    );
    for round in 0..100 {
        let consume = a
            .with_separate_connections()
            .consume_from(&["a", "b"])
            .timeout_s(30);
        let consumer = tokio::spawn(consume.job());
        session.target.until_waiting(1).await;
        let (id_a, id_b) = tokio::join!(a.publish("a").tries(3).id(), b.publish("b").tries(3).id());
        let taken = consumer.await.unwrap().unwrap();
        assert_eq!(taken.remain_tries, 2);
        let (queue, id) = if taken.id == id_a {
            (&b, &id_b)
        } else {
            (&a, &id_a)
        };
        let begin = Instant::now();
        let other = queue.consume().timeout_s(LONG_S).job().await.unwrap();
        assert_eq!((&other.id, other.remain_tries), (id, 2), "round {round}");
        assert!(begin.elapsed() < WOKEN_WITHIN, "{:?}", begin.elapsed());
        queue.ack(&other.id).await;
        queue.sibling(&taken.queue).ack(&taken.id).await;
    }
    session.target.check().await;
}
