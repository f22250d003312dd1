//! Connections that are dead and do not say so: nothing arrives, and nobody is told.

use std::time::{Duration, Instant};

use tidegate_testkit::{Daemon, FaultProxy, Program, Queue, eventually, figure, redis, seed};

use crate::turn;

/// A call is given up after 3 s, a silent subscription after 10 s at most.
const RECOVERY_MAX: Duration = Duration::from_secs(40);

/// The proxy goes on to confirm what it gets, as one between a container and Redis would: the kernel sees nothing wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_leave_a_connection_on_which_nothing_is_answered() {
    let _turn = turn().await;
    let redis = redis();
    let proxy = FaultProxy::start(redis.address(), seed()).await;
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--redis".to_owned(), format!("redis://{}", proxy.address())];
    let api = Daemon::start(Program::Api, "api", &arguments, folder.path()).await;
    let _pump = Daemon::start(Program::Pumpd, "pump", &arguments, folder.path()).await;
    let queue = Queue::with_new_token(&api, "default", "half-open", "q").await;
    queue.publish("before").id().await;

    for _ in 0..2 {
        proxy.silence();
        let begin = Instant::now();
        let works = async || match queue.publish("x").send().await.unwrap() {
            answer if answer.status == 201 => Ok(()),
            answer => Err(answer),
        };
        eventually("publishing works again", RECOVERY_MAX, works).await;
        figure(&format!("half open: published after {:?}", begin.elapsed()));
        queue.destroy().await;
        // The pump's connections are new, too.
        let id = queue.publish("delayed").delay_s(1).id().await;
        let job = queue
            .consume()
            .timeout_s(RECOVERY_MAX.as_secs())
            .job()
            .await;
        assert_eq!(job.expect("a delayed job comes").id, id);
        queue.ack(&id).await;
        figure(&format!(
            "half open: a delayed job came after {:?}",
            begin.elapsed()
        ));
    }
}
