//! An address that leads to another server, as a virtual address, a proxy or a Service of Kubernetes does after a
//! failover: the old master becomes a replica, and old connections to it stay.

use std::time::{Duration, Instant};

use tidegate_testkit::{
    Daemon, FaultProxy, RedisControl, RedisOptions, RedisServer, consistency, eventually,
    print_figure, seed,
};

use crate::fleet::Fleet;
use crate::turn;

/// The longest time from the switch until work continues.
const CONTINUES_WITHIN: Duration = Duration::from_secs(2);
const LIMIT: Duration = Duration::from_secs(30);
/// Publishes in this namespace wait for a replica.
const DURABLE: &str = "durable";
const DURABILITY: &str =
    "\n[durability]\ntimeout = \"1s\"\n[durability.namespaces]\ndurable = \"replica:1\"\n";

/// Two servers, and the address that leads to one of them.
struct SwitchingEndpoint {
    old: RedisServer,
    new: RedisServer,
    proxy: FaultProxy,
}

impl SwitchingEndpoint {
    async fn start() -> Self {
        let start = || {
            let options = RedisOptions::new().setting("repl-diskless-sync-delay", "0");
            tokio::task::spawn_blocking(move || options.start())
        };
        let (old, new) = (start().await.unwrap(), start().await.unwrap());
        let mut replica = RedisControl::connect(&new.url()).await;
        replica.replicate(Some(old.address())).await;
        replica.wait_until_in_sync().await;
        let proxy = FaultProxy::start(old.address(), seed()).await;
        Self { old, new, proxy }
    }

    fn pool(&self) -> String {
        format!("url = \"redis://{}\"\n", self.proxy.address())
    }

    /// No write is in flight.
    async fn switch(&self) -> Instant {
        let mut old = RedisControl::connect(&self.old.url()).await;
        let mut new = RedisControl::connect(&self.new.url()).await;
        new.wait_until_at(old.replication_offset().await).await;
        self.proxy.lead_to(self.new.address());
        new.replicate(None).await;
        old.replicate(Some(self.new.address())).await;
        Instant::now()
    }

    async fn until_no_client_is_at_the_old_server(&self) {
        let mut old = RedisControl::connect(&self.old.url()).await;
        let left = async || match old.clone().client_connections().await {
            0 => Ok(()),
            left => Err(left),
        };
        eventually("no connection stays at the old master", LIMIT, left).await;
        old.replicate(None).await;
    }
}

fn report(what: &str, switched_at: Instant) {
    let took = switched_at.elapsed();
    print_figure(&format!("endpoint switch: {what} {took:?} after it"));
    assert!(took < CONTINUES_WITHIN, "{what}: {took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_transfers_barriers_and_subscriptions_follow_the_address() {
    let _turn = turn().await;
    let endpoint = SwitchingEndpoint::start().await;
    let fleet = Fleet::start(2, 0, &(endpoint.pool() + DURABILITY)).await;
    let pumps = Fleet::start(0, 2, &endpoint.pool()).await;
    let idle = &fleet.apis[1];
    let queue = fleet.queue("q").await;
    let durable = fleet.queue_in(DURABLE, "q").await;
    let large = vec![b'x'; 100_000];
    // All kinds of connections are open.
    queue.publish(large.clone()).id().await;
    queue.consume().job().await.unwrap();
    durable.publish("x").send().await.unwrap().expect(201);
    let parked = |name: &str, api: &Daemon| {
        let queue = queue.sibling(name).on_api(api).with_separate_connections();
        tokio::spawn(queue.consume().timeout_s(30).job())
    };
    let delayed_job = queue.sibling("delayed").publish("x").delay_s(2).id().await;
    let due_at = Instant::now() + Duration::from_secs(2);
    let waits_for_delayed = parked("delayed", idle);
    let waits = parked("idle", idle);
    idle.wait_for_waiting_consumers(2).await;

    let switched_at = endpoint.switch().await;
    let job = eventually("a publish succeeds", LIMIT, async || {
        let answer = queue.sibling("idle").publish("x").send().await.unwrap();
        match answer.status {
            201 => Ok(answer.json()["job_id"].as_str().unwrap().to_owned()),
            _ => Err(answer),
        }
    });
    let job = job.await;
    report("first publish", switched_at);
    assert_eq!(waits.await.unwrap().unwrap().id, job);
    report(
        "delivery to a consumer that waits at an idle API",
        switched_at,
    );
    queue.publish(large).id().await;
    report("large publish", switched_at);
    assert_eq!(waits_for_delayed.await.unwrap().unwrap().id, delayed_job);
    let late = Instant::now() - due_at.max(switched_at);
    assert!(late < CONTINUES_WITHIN, "a delayed job was {late:?} late");
    let confirmed = async || match durable.publish("x").send().await.unwrap() {
        answer if answer.status == 201 => Ok(()),
        answer => Err(answer),
    };
    eventually("a publish is confirmed by a replica", LIMIT, confirmed).await;
    endpoint.until_no_client_is_at_the_old_server().await;
    assert!(fleet.all_run(), "{}", fleet.logs());
    assert!(pumps.all_run(), "{}", pumps.logs());
    consistency::check(&endpoint.new.url()).await;
}

/// Nothing is published, and nothing is due.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_daemons_follow_the_address() {
    let _turn = turn().await;
    let endpoint = SwitchingEndpoint::start().await;
    let fleet = Fleet::start(1, 1, &endpoint.pool()).await;
    let queue = fleet.queue("q").await;
    let waiting = queue.with_separate_connections();
    let waiting = tokio::spawn(waiting.consume().timeout_s(30).job());
    fleet.apis[0].wait_for_waiting_consumers(1).await;
    let new = RedisControl::connect(&endpoint.new.url()).await;
    let switched_at = endpoint.switch().await;
    let subscribed = async || match new.clone().subscribers().await {
        2 => Ok(()),
        other => Err(other),
    };
    eventually("both are subscribed", LIMIT, subscribed).await;
    report("both daemons are subscribed", switched_at);
    endpoint.until_no_client_is_at_the_old_server().await;
    let id = queue.publish("x").id().await;
    assert_eq!(waiting.await.unwrap().unwrap().id, id);
    let switches = fleet
        .logs()
        .matches("the master is another server now")
        .count();
    assert_eq!(switches, 2, "{}", fleet.logs());
}
