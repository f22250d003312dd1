//! `DELETE /api/:namespace/:queue`

use std::time::Duration;

use tidegate_testkit::eventually;

use crate::session::{play, session};

#[tokio::test]
async fn only_ready_jobs_are_deleted() {
    let session = session().await;
    let queue = session.queue("mixed");
    queue.publish("dead").id().await;
    queue.consume().ttr_s(0).job().await.unwrap();
    let dead = async || match queue.dead_size().await {
        1 => Ok(()),
        size => Err(size),
    };
    eventually("one is dead", Duration::from_secs(5), dead).await;
    let leased = queue.publish("leased").tries(2).id().await;
    assert_eq!(queue.consume().ttr_s(3).job().await.unwrap().id, leased);
    let delayed = queue.publish("delayed").delay_s(3).id().await;
    let bodies: Vec<String> = (0..64).map(|number| number.to_string()).collect();
    let mut ready = Vec::new();
    for _ in 0..10 {
        ready.extend(queue.publish_bulk(&bodies).ids().await);
    }
    assert_eq!(queue.size().await, 640);
    queue.destroy().await;
    assert_eq!(queue.size().await, 0);
    for id in [&ready[0], &ready[639]] {
        queue.peek_job(id).await.expect(404);
    }
    assert_eq!(queue.dead_size().await, 1);
    let mut later = Vec::new();
    for _ in 0..2 {
        later.push(queue.consume().timeout_s(5).job().await.unwrap().id);
    }
    later.sort();
    let mut expected = vec![leased, delayed];
    expected.sort();
    assert_eq!(later, expected);
    session.target.check().await;
}

#[tokio::test]
async fn an_unknown_queue_can_be_destroyed_and_a_destroyed_one_used() {
    play(
        r#"
        > DELETE /api/$ns/nobody
        < 204
        > PUT /api/$ns/$q
        < 201 {"job_id":"$id:a","msg":"published"}
        > DELETE /api/$ns/$q
        < 204
        > DELETE /api/$ns/$q
        < 204
        > PUT /api/$ns/$q
        < 201 {"job_id":"$id:b","msg":"published"}
        > GET /api/$ns/$q
        < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$b","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
        "#,
    )
    .await;
}
