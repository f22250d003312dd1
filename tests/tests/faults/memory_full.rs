//! Redis has reached `maxmemory`.

use tidegate_testkit::{RedisControl, Stack, print_figure};

const ROOM_BYTES: u64 = 2 * 1024 * 1024;
const BODY_BYTES: usize = 8 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_redis_refuses_new_jobs_and_delivers_stored_ones() {
    let stack = Stack::builder().start().await;
    let queue = stack.queue("q").await;
    // Loads every script and what the first calls need.
    let first = queue.publish(random_body()).tries(2).id().await;
    assert_eq!(queue.consume().ttr_s(0).job().await.unwrap().id, first);
    assert_eq!(queue.consume().timeout_s(5).job().await.unwrap().id, first);
    queue.ack(&first).await;
    let mut control = RedisControl::connect(&stack.redis.url()).await;
    control.limit_memory(Some(ROOM_BYTES)).await;

    let mut ids = Vec::new();
    let refusal = loop {
        let publish = queue.publish(random_body()).delay_s(ids.len() as u64 % 2);
        let answer = publish.send().await.unwrap();
        if answer.status != 201 {
            break answer;
        }
        ids.push(answer.json()["job_id"].as_str().unwrap().to_owned());
    };
    assert_eq!(refusal.expect(500).text(), r#"{"error":"internal error"}"#);
    print_figure(&format!("redis was full with {} jobs of 8 KiB", ids.len()));
    assert!(ids.len() > 20, "the limit came too soon");

    // Daemons start meanwhile: the stored jobs can be consumed.
    for daemon in [stack.api(0), stack.pump(0)] {
        daemon.kill();
        daemon.restart().await;
    }

    let mut found = Vec::new();
    while found.len() < ids.len() {
        let jobs = queue.consume().count(10).timeout_s(5).jobs().await;
        assert!(!jobs.is_empty(), "{} of {} came", found.len(), ids.len());
        for job in jobs {
            queue.ack(&job.id).await;
            found.push(job.id);
        }
    }
    found.sort();
    ids.sort();
    assert_eq!(found, ids);
    queue.publish(random_body()).id().await;
    stack.finish().await;
}

/// Random bytes, which cannot be compressed.
fn random_body() -> Vec<u8> {
    (0..BODY_BYTES).map(|_| rand::random()).collect()
}
