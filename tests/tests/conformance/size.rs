//! `GET /api/:namespace/:queue/size` and `GET /api/:namespace/:queue/deadletter/size`

use crate::session::play;

#[tokio::test]
async fn sizes_need_no_token() {
    play(
        r#"
        > PUT /api/$ns/$q
        < 201 {"job_id":"$id:a","msg":"published"}
        > GET /api/$ns/$q/size
        - X-Token
        < 200 {"namespace":"$ns","queue":"$q","size":1}
        > GET /api/$ns/$q/size
        + X-Token: nonsense
        < 200 {"namespace":"$ns","queue":"$q","size":1}
        > GET /api/$ns/$q/size?token=default:nonsense
        - X-Token
        < 200 {"namespace":"$ns","queue":"$q","size":1}
        > GET /api/$ns/$q/deadletter/size
        - X-Token
        < 200 {"namespace":"$ns","queue":"$q","size":0}
        # but a token names the pool
        > GET /api/$ns/$q/size
        + X-Token: nowhere:x
        < 404 {"error":"pool not found"}
        > GET /api/$ns/$q/deadletter/size?token=nowhere:x
        - X-Token
        < 404 {"error":"pool not found"}
        "#,
    )
    .await;
}

#[tokio::test]
async fn unknown_queues_are_empty() {
    play(
        r#"
        > GET /api/$ns/nobody/size
        - X-Token
        < 200 {"namespace":"$ns","queue":"nobody","size":0}
        > GET /api/nobody-$ns/nobody/deadletter/size
        - X-Token
        < 200 {"namespace":"nobody-$ns","queue":"nobody","size":0}
        "#,
    )
    .await;
}

#[tokio::test]
async fn only_ready_jobs_are_counted() {
    play(
        r#"
        > PUT /api/$ns/$q/bulk
        | [1,2,3]
        < 201 {"job_ids":["$id:a","$id:b","$id:c"],"msg":"published"}
        > PUT /api/$ns/$q?delay=600
        < 201 {"job_id":"$id:d","msg":"published"}
        > GET /api/$ns/$q/size
        < 200 {"namespace":"$ns","queue":"$q","size":3}
        > GET /api/$ns/$q
        < 200 {"attributes":null,"data":"MQ==","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
        > GET /api/$ns/$q/size
        < 200 {"namespace":"$ns","queue":"$q","size":2}
        > DELETE /api/$ns/$q/job/$c
        < 204
        > GET /api/$ns/$q/size
        ! deleted jobs do not count
        < 200 {"namespace":"$ns","queue":"$q","size":1}
        "#,
    )
    .await;
}

#[tokio::test]
async fn expired_jobs_do_not_count_for_long() {
    play(
        r#"
        > PUT /api/$ns/$q?ttl=1
        < 201 {"job_id":"$id:a","msg":"published"}
        > GET /api/$ns/$q/size
        < 200 {"namespace":"$ns","queue":"$q","size":1}
        > GET /api/$ns/$q/size
        ! expired jobs do not count for long
        ~ 5s
        < 200 {"namespace":"$ns","queue":"$q","size":0}
        "#,
    )
    .await;
}
