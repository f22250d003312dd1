//! Concurrent requests: each gets its own answer.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tidegate_testkit::QueueClient;

use crate::session::session;

const CLIENTS: usize = 32;
const ROUNDS: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_many_publishers_gets_the_ids_of_its_own_jobs() {
    let session = session().await;
    let clients = (0..CLIENTS).map(|number| {
        let queue = session.queue("q1").with_separate_connections();
        tokio::spawn(publish_and_ack(number, queue))
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    assert_eq!(session.queue("q1").size().await, 0);
    session.target.check().await;
}

async fn publish_and_ack(number: usize, queue: QueueClient) {
    for round in 0..ROUNDS {
        // Small and large ones, one by one and in bulk.
        let filler = "x".repeat(if round % 4 == 3 { 20_000 } else { round });
        let body = |part: usize| format!("\"{number}-{round}-{part}-{filler}\"");
        let bodies: Vec<String> = (0..round % 3 * 4).map(body).collect();
        let ids = match bodies.as_slice() {
            [] => vec![queue.publish(body(0)).id().await],
            _ => queue.publish_bulk(&bodies).ids().await,
        };
        for (part, id) in ids.iter().enumerate() {
            let shown = queue.peek_job(id).await.expect(200).json();
            assert_eq!(shown["data"], STANDARD.encode(body(part)));
            queue.ack(id).await;
            assert_eq!(queue.peek_job(id).await.status, 404);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_acks_delete_only_the_jobs_they_name() {
    let session = session().await;
    let queue = session.queue("q1");
    let bodies: Vec<String> = (0..64).map(|number| number.to_string()).collect();
    let ids = queue.publish_bulk(&bodies).ids().await;
    let acks = ids.iter().step_by(2).map(|id| {
        let (queue, id) = (queue.with_separate_connections(), id.clone());
        tokio::spawn(async move { queue.ack(&id).await })
    });
    for ack in acks.collect::<Vec<_>>() {
        ack.await.unwrap();
    }
    for (number, id) in ids.iter().enumerate() {
        let expected = if number % 2 == 0 { 404 } else { 200 };
        assert_eq!(queue.peek_job(id).await.status, expected, "{number}");
    }
    session.target.check().await;
}
