//! Half-open connections: nothing arrives, and neither side gets an error.

use std::time::{Duration, Instant};

use tidegate_testkit::{
    Daemon, DaemonProgram, FaultProxy, QueueClient, eventually, print_figure, seed, start_redis,
};

/// A call times out after 3 s, and a silent subscription after 10 s at most.
const RECOVERY_MAX: Duration = Duration::from_secs(40);

/// The proxy still acknowledges what it receives, as one between a container and Redis would: the kernel sees no error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_replace_a_connection_that_no_longer_answers() {
    let redis = start_redis();
    let proxy = FaultProxy::start(redis.address(), seed()).await;
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--redis".to_owned(), format!("redis://{}", proxy.address())];
    let api = Daemon::start(DaemonProgram::Api, "api", &arguments, folder.path()).await;
    let _pump = Daemon::start(DaemonProgram::Pumpd, "pump", &arguments, folder.path()).await;
    let queue = QueueClient::with_new_token(&api, "default", "half-open", "q").await;
    queue.publish("before").id().await;

    for _ in 0..2 {
        proxy.make_half_open();
        let begin = Instant::now();
        let works = async || match queue.publish("x").send().await.unwrap() {
            answer if answer.status == 201 => Ok(()),
            answer => Err(answer),
        };
        eventually("publishing works again", RECOVERY_MAX, works).await;
        print_figure(&format!("half open: published after {:?}", begin.elapsed()));
        queue.destroy().await;
        // The pump has replaced its connections, too.
        let id = queue.publish("delayed").delay_s(1).id().await;
        let job = queue
            .consume()
            .timeout_s(RECOVERY_MAX.as_secs())
            .job()
            .await;
        assert_eq!(job.expect("a delayed job comes").id, id);
        queue.ack(&id).await;
        print_figure(&format!(
            "half open: a delayed job came after {:?}",
            begin.elapsed()
        ));
    }
}
