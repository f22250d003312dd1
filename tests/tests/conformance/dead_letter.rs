//! `GET`, `PUT` and `DELETE /api/:namespace/:queue/deadletter`

use std::time::Duration;

use tidegate_testkit::{QueueClient, eventually};

use crate::session::{play, session};
use crate::target::better;

#[tokio::test]
async fn a_job_without_tries_left_is_dead_and_can_be_respawned() {
    play(
        r#"
        > GET /api/$ns/$q/deadletter
        < 200 {"deadletter_head":"","deadletter_size":0,"namespace":"$ns","queue":"$q"}
        > PUT /api/$ns/$q?ttl=60
        | hello
        < 201 {"job_id":"$id:a","msg":"published"}
        > GET /api/$ns/$q?ttr=1
        < 200 {"attributes":null,"data":"aGVsbG8=","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:60}
        > GET /api/$ns/$q/deadletter
        ! a lease is never shorter than asked
        < 200 {"deadletter_head":"","deadletter_size":0,"namespace":"$ns","queue":"$q"}
        > GET /api/$ns/$q/deadletter?limit=nonsense
        ~ 4s
        < 200 {"deadletter_head":"$a","deadletter_size":1,"namespace":"$ns","queue":"$q"}
        > GET /api/$ns/$q/deadletter/size
        - X-Token
        < 200 {"namespace":"$ns","queue":"$q","size":1}
        > GET /api/$ns/$q/job/$a
        < 200 {"attributes":null,"data":"aGVsbG8=","elapsed_ms":$int,"job_id":"$a","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":0}

        > PUT /api/$ns/$q/deadletter
        < 200 {"count":1,"msg":"respawned"}
        > PUT /api/$ns/$q/deadletter
        < 200 {"count":0,"msg":"respawned"}
        > GET /api/$ns/$q/deadletter
        < 200 {"deadletter_head":"","deadletter_size":0,"namespace":"$ns","queue":"$q"}
        > GET /api/$ns/$q?ttr=0
        < 200 {"attributes":null,"data":"aGVsbG8=","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}

        > GET /api/$ns/$q/deadletter/size
        ~ 3s
        < 200 {"namespace":"$ns","queue":"$q","size":1}
        > DELETE /api/$ns/$q/deadletter
        < 204
        > DELETE /api/$ns/$q/deadletter
        < 204
        > GET /api/$ns/$q/deadletter/size
        < 200 {"namespace":"$ns","queue":"$q","size":0}
        > GET /api/$ns/$q/job/$a
        < 404 {"error":"job not found"}
        "#,
    )
    .await;
}

/// Publishes jobs and lets them die; returns their ids, oldest first.
async fn bury(queue: &QueueClient, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for number in 0..count {
        let id = queue.publish(number.to_string()).id().await;
        queue.consume().ttr_s(0).job().await.unwrap();
        ids.push(id);
        let dead = async || match queue.dead_size().await {
            size if size == number as u64 + 1 => Ok(()),
            size => Err(size),
        };
        eventually("one more is dead", Duration::from_secs(5), dead).await;
    }
    ids
}

async fn head(queue: &QueueClient) -> String {
    queue.dead_letter().await["deadletter_head"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn the_oldest_are_respawned_first_to_the_tail_of_the_queue() {
    let session = session().await;
    let queue = session.queue("respawn");
    let dead = bury(&queue, 4).await;
    let ready = queue.publish("ready").tries(5).id().await;
    assert_eq!(head(&queue).await, dead[0]);
    assert_eq!(queue.respawn(2, 100).await, 2);
    assert_eq!(
        (head(&queue).await, queue.dead_size().await),
        (dead[2].clone(), 2)
    );
    assert_eq!(queue.respawn(9_223_372_036_854_775_807, 0).await, 2);
    let jobs = queue.consume().count(10).jobs().await;
    let found: Vec<(&str, u64, u64)> = jobs
        .iter()
        .map(|job| (job.id.as_str(), job.remain_tries, job.ttl_s))
        .collect();
    let expected = [
        (ready.as_str(), 4, 86400),
        (dead[0].as_str(), 0, 100),
        (dead[1].as_str(), 0, 100),
        (dead[2].as_str(), 0, 0),
        (dead[3].as_str(), 0, 0),
    ];
    assert_eq!(found, expected);
    session.target.check().await;
}

#[tokio::test]
async fn the_oldest_are_deleted_first() {
    let session = session().await;
    let queue = session.queue("purge");
    let dead = bury(&queue, 3).await;
    queue.purge_dead(1).await;
    assert_eq!(
        (head(&queue).await, queue.dead_size().await),
        (dead[1].clone(), 2)
    );
    queue.purge_dead(1_000_000).await;
    assert_eq!(queue.dead_size().await, 0);
    queue.peek_job(&dead[2]).await.expect(404);
    session.target.check().await;
}

#[tokio::test]
async fn a_deleted_job_leaves_the_dead_letter() {
    if !better("a deleted job leaves the dead letter at once") {
        return;
    }
    let session = session().await;
    let queue = session.queue("deleted");
    let dead = bury(&queue, 4).await;
    queue.ack(&dead[1]).await;
    queue.purge_dead(1).await;
    assert_eq!(
        (head(&queue).await, queue.dead_size().await),
        (dead[2].clone(), 2)
    );
    session.target.check().await;
}

#[tokio::test]
async fn respawned_jobs_expire_again() {
    let session = session().await;
    let queue = session.queue("expire");
    let dead = bury(&queue, 1).await;
    assert_eq!(queue.respawn(1, 1).await, 1);
    let gone = async || match queue.peek_job(&dead[0]).await.status {
        404 => Ok(()),
        status => Err(status),
    };
    eventually("the job is gone", Duration::from_secs(5), gone).await;
    session.target.check().await;
}

#[tokio::test]
async fn limit_and_ttl_are_numbers_in_range() {
    let mut session = session().await;
    let bad = [
        "",
        "-1",
        "abc",
        "1.5",
        "0x1",
        "1_0",
        "9223372036854775808",
        "99999999999999999999999",
    ];
    for value in bad.into_iter().chain(["0", "00"]) {
        for method in ["PUT", "DELETE"] {
            let row = format!(
                "> {method} /api/$ns/$q/deadletter?limit={value}\n< 400 {{\"error\":\"invalid limit\"}}"
            );
            session.play(&row).await;
        }
    }
    for value in bad {
        let row = format!(
            "> PUT /api/$ns/$q/deadletter?ttl={value}\n< 400 {{\"error\":\"invalid ttl\"}}"
        );
        session.play(&row).await;
    }
    session
        .play(
            r#"
            > PUT /api/$ns/$q/deadletter?ttl=x&limit=x
            < 400 {"error":"invalid limit"}
            > PUT /api/$ns/$q/deadletter?limit=007&ttl=0
            < 200 {"count":0,"msg":"respawned"}
            > PUT /api/$ns/$q/deadletter?limit=9223372036854775807&ttl=4294967295
            < 200 {"count":0,"msg":"respawned"}
            > DELETE /api/$ns/$q/deadletter?limit=9223372036854775807
            < 204
            > DELETE /api/$ns/$q/deadletter?ttl=nonsense
            < 204
            "#,
        )
        .await;
}

#[tokio::test]
async fn the_ttl_of_a_respawn_may_exceed_that_of_a_publish() {
    if !better("a long ttl is cut to some centuries, where lmstfy counts it modulo 2^32 or fails") {
        return;
    }
    let session = session().await;
    let queue = session.queue("long");
    let centuries_s = 100 * 365 * 86400;
    for ttl_s in [4_294_967_296, 9_223_372_036_854_775_807] {
        let dead = bury(&queue, 1).await;
        assert_eq!(queue.respawn(1, ttl_s).await, 1);
        let job = queue.consume().job().await.unwrap();
        assert_eq!(job.id, dead[0]);
        assert!(
            job.ttl_s > centuries_s && job.ttl_s <= ttl_s,
            "{}",
            job.ttl_s
        );
        queue.ack(&job.id).await;
    }
    session.target.check().await;
}
