//! A slow link between a daemon and Redis.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rand::RngExt;
use serde_json::json;
use tidegate_core::JobId;
use tidegate_testkit::fault_proxy::{DirectionConditions, ForwardMode, NetworkConditions};
use tidegate_testkit::{
    Daemon, DaemonProgram, FaultProxy, NativeClient, QueueClient, RawHttp, ReceivedJob,
    RedisServer, eventually, print_figure, seed, start_redis,
};

use crate::leases::shortest_membership_ms;

/// A fifth of the time for which jobs that a consumer has wait for further ones.
const DELAY: Duration = Duration::from_millis(20);

/// More than one call of `reserve` reads.
const STALE_HINTS: usize = 300;

/// Read one after the other, their ticks take 4 s with this delay.
const SCHEDULES: usize = 200;

/// The rate of the link for large jobs, and how many of them are published together unless `TIDEGATE_UPLOADS` says
/// otherwise: they take longer than a call may (`command_timeout`, 3 s).
const BYTES_PER_SECOND: u32 = 20_000_000;
const UPLOADS: usize = 80;

/// An API whose calls become slow on request.
struct SlowApi {
    api: Daemon,
    proxy: FaultProxy,
    redis: RedisServer,
    _folder: tempfile::TempDir,
}

impl SlowApi {
    async fn start() -> Self {
        Self::start_with("").await
    }

    async fn start_with(config: &str) -> Self {
        let redis = start_redis();
        let proxy = FaultProxy::start(redis.address(), seed()).await;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.toml");
        std::fs::write(&path, config).unwrap();
        let arguments = [
            "--config".to_owned(),
            path.display().to_string(),
            "--redis".to_owned(),
            format!("redis://{}", proxy.address()),
        ];
        let api = Daemon::start(DaemonProgram::Api, "api", &arguments, folder.path()).await;
        Self {
            api,
            proxy,
            redis,
            _folder: folder,
        }
    }

    async fn queue(&self, name: &str) -> QueueClient {
        QueueClient::with_new_token(&self.api, "default", "slow-link", name).await
    }

    fn slow_down(&self) {
        delay_calls(&self.proxy, DELAY);
    }
}

/// Delays everything that is sent to Redis.
fn delay_calls(proxy: &FaultProxy, delay: Duration) {
    let to_server = DirectionConditions {
        delay,
        ..DirectionConditions::default()
    };
    proxy.set(NetworkConditions {
        to_server,
        ..NetworkConditions::default()
    });
}

/// The ticks of a page are read together.
#[tokio::test]
async fn a_page_of_schedules_takes_no_call_after_the_other_for_each() {
    let slow = SlowApi::start().await;
    let client = NativeClient::new(&slow.api, "slow-schedules").await;
    let hourly = json!({"queue": "q", "every": "1h", "job": {"payload": 1}});
    for number in 0..SCHEDULES {
        let path = format!("/schedules/s{number:03}");
        client.call("PUT", &path, &hourly).await.expect(201);
    }
    slow.slow_down();
    let asked_at = Instant::now();
    let page = client.get("/schedules?limit=1000").await.expect(200).json();
    let took = asked_at.elapsed();
    print_figure(&format!(
        "a page of {SCHEDULES} schedules takes {took:.0?}, each call to Redis {DELAY:?}"
    ));
    let items = page["items"].as_array().unwrap();
    assert_eq!(items.len(), SCHEDULES);
    assert!(items.iter().all(|item| item["next_run"].is_string()));
    assert!(took < Duration::from_secs(2), "{took:?}");
}

/// A pump whose calls are slow from its start on.
struct SlowPump {
    pump: Daemon,
    redis: RedisServer,
    _proxy: FaultProxy,
    _folder: tempfile::TempDir,
}

impl SlowPump {
    /// A pump that is this far from its server, in each direction.
    async fn distant(distance: Duration, lease: Duration) -> Self {
        let redis = start_redis();
        let free_port = (Ipv4Addr::LOCALHOST, 0).into();
        let proxy = FaultProxy::start_at(free_port, redis.address(), distance, seed()).await;
        Self::start(redis, proxy, lease).await
    }

    /// A pump whose link holds back each piece for this time, and all pieces behind it.
    async fn held_back(delay: Duration, lease: Duration) -> Self {
        let redis = start_redis();
        let proxy = FaultProxy::start(redis.address(), seed()).await;
        delay_calls(&proxy, delay);
        Self::start(redis, proxy, lease).await
    }

    async fn start(redis: RedisServer, proxy: FaultProxy, lease: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let arguments = [
            format!("--redis=redis://{}", proxy.address()),
            format!("--lease={}ms", lease.as_millis()),
        ];
        let pump = Daemon::start(DaemonProgram::Pumpd, "pump", &arguments, folder.path()).await;
        Self {
            pump,
            redis,
            _proxy: proxy,
            _folder: folder,
        }
    }
}

/// The creation time in the id plus `elapsed_ms` is the time at which the lease began.
#[track_caller]
fn assert_leased_in_two_calls(jobs: &[ReceivedJob]) {
    let leased_at_ms = |job: &ReceivedJob| {
        let id: JobId = job.id.parse().expect("an id");
        id.created_at_ms() + job.elapsed_ms
    };
    let [one, two] = jobs else {
        panic!("{jobs:?}");
    };
    let between = leased_at_ms(two).saturating_sub(leased_at_ms(one));
    assert!(
        u128::from(between) >= DELAY.as_millis(),
        "{between} ms between two calls: {jobs:?}"
    );
}

/// One call reserves the job of the first queue and a later call that of the second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn elapsed_time_of_each_job_ends_at_its_own_lease() {
    /// The job of the first queue waits for a quarter of a second for that of the second one. If the machine stalls for
    /// longer, it comes alone, and two other queues are used.
    const ATTEMPTS: usize = 5;
    let slow = SlowApi::start().await;
    let queue = slow.queue("first").await;
    let names = |attempt: usize| [format!("first-{attempt}"), format!("second-{attempt}")];
    for name in (0..ATTEMPTS).flat_map(names) {
        queue.sibling(&name).publish("x").id().await;
    }
    slow.slow_down();
    let mut jobs = Vec::new();
    for [first, second] in (0..ATTEMPTS).map(names) {
        let consume = queue.consume_from(&[&first, &second]).count(2);
        let answer = consume.send().await.unwrap();
        if answer.status == 200 {
            jobs = ReceivedJob::parse_all(&answer);
        }
        if jobs.len() == 2 {
            break;
        }
    }
    assert_leased_in_two_calls(&jobs);
}

/// One call reserves the first job of a queue, and a later call the one behind many stale hints.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn elapsed_time_of_jobs_of_one_queue_ends_at_their_own_leases() {
    let slow = SlowApi::start().await;
    let queue = slow.queue("first").await;
    queue.publish("1").id().await;
    for _ in 0..STALE_HINTS {
        let deleted = queue.publish("deleted").id().await;
        queue.ack(&deleted).await;
    }
    queue.publish("2").id().await;
    slow.slow_down();
    let jobs = queue.consume().count(2).jobs().await;
    assert_leased_in_two_calls(&jobs);
}

/// A body waits for its turn on the link, or its publish is refused, without an effect. None fails with an unknown
/// outcome.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_jobs_that_are_published_together_are_stored_or_refused() {
    let wanted = std::env::var("TIDEGATE_UPLOADS").ok();
    let uploads = wanted.map_or(UPLOADS, |text| text.parse().unwrap());
    let slow = SlowApi::start().await;
    let queue = slow.queue("large").await.with_separate_connections();
    let to_server = DirectionConditions {
        bytes_per_second: Some(BYTES_PER_SECOND),
        ..DirectionConditions::default()
    };
    slow.proxy.set(NetworkConditions {
        to_server,
        ..NetworkConditions::default()
    });
    // Random, since Tidegate compresses bodies.
    let mut body = vec![0; 1_000_000];
    rand::rng().fill(&mut body[..]);
    let began = Instant::now();
    let publishing = (0..uploads).map(|_| queue.publish(body.clone()).send());
    let answers = join_all(publishing).await;
    let took = began.elapsed();
    let count = |status| {
        let answers = answers.iter().map(|it| it.as_ref().unwrap().status);
        answers.filter(|it| *it == status).count()
    };
    let (stored, refused) = (count(201), count(503));
    print_figure(&format!(
        "{uploads} publishes of 1 MB over 20 MB/s: {stored} stored, {refused} refused, after {:.1} s",
        took.as_secs_f64()
    ));
    assert_eq!(stored + refused, uploads);
    assert!(took > Duration::from_secs(3), "the link was fast: {took:?}");
    assert_eq!(queue.size().await, stored as u64);
}

/// Taking all locks lasts longer than a membership here: 256 calls, 32 at a time, take 8 round trips of 0.5 s. If the
/// membership expired, other pumps would take the buckets.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pump_stays_a_member_while_it_takes_many_locks() {
    const LEASE: Duration = Duration::from_secs(3);
    let slow = SlowPump::distant(Duration::from_millis(250), LEASE).await;
    let client = redis::Client::open(slow.redis.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let (mut shortest_ms, mut held, mut member_since) = (f64::MAX, 0.0, None);
    let until = Instant::now() + Duration::from_secs(60);
    while held < 256.0 {
        assert!(Instant::now() < until, "{held} buckets are held");
        if let Some(left_ms) = shortest_membership_ms(&mut connection) {
            member_since.get_or_insert_with(Instant::now);
            shortest_ms = f64::min(shortest_ms, left_ms);
        } else {
            assert!(member_since.is_none(), "the membership has ended");
        }
        held = slow.pump.metric("tidegate_pump_buckets_held").await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(shortest_ms > 0.0, "a membership ended {shortest_ms} ms ago");
    let took = member_since.expect("the pump is a member").elapsed();
    assert!(took > LEASE, "all locks were taken in {took:?}");
}

/// A call takes longer than a fifth of the lease here, and less than the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pump_on_a_slow_link_leads_its_buckets_and_becomes_ready() {
    let slow = SlowPump::held_back(Duration::from_millis(300), Duration::from_secs(1)).await;
    eventually("the pump is ready", Duration::from_secs(30), async || {
        let mut http = RawHttp::connect(slow.pump.admin()).await;
        http.request("GET", "/readyz", &[], b"").await;
        match http.answer().await.unwrap() {
            answer if answer.status == 200 => Ok(()),
            answer => Err(answer),
        }
    })
    .await;
    assert_eq!(slow.pump.metric("tidegate_pump_buckets_held").await, 256.0);
}

/// The client hangs up before the answer to the reserve arrives, and Redis refuses to take the job back for a while.
/// The lease is long, and the job has one try: nothing else would bring it back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_without_a_taker_is_released_when_redis_executes_scripts_again() {
    /// The call waits for as long as answers are held, and scrapes do not.
    const CONFIG: &str = "[pool.default]\ncommand_timeout = \"1m\"\n[metrics]\nrefresh = \"1h\"";
    const LIMIT: Duration = Duration::from_secs(20);
    let slow = SlowApi::start_with(CONFIG).await;
    let queue = slow.queue("q").await;
    // The token is known from now on, and Redis has the script.
    assert!(queue.consume().job().await.is_none());
    slow.api.wait_for_waiting_consumers(0).await;
    let id = queue.publish("x").tries(1).id().await;
    let client = redis::Client::open(slow.redis.url()).unwrap();
    let mut redis = client.get_connection().unwrap();
    let mut set_right = |right: &str| {
        let mut acl = redis::cmd("ACL");
        acl.arg("SETUSER").arg("default").arg(right);
        acl.exec(&mut redis).unwrap();
    };
    let to_client = DirectionConditions {
        mode: ForwardMode::Stalls,
        ..DirectionConditions::default()
    };
    slow.proxy.set(NetworkConditions {
        to_client,
        ..NetworkConditions::default()
    });
    let mut gone = RawHttp::connect(slow.api.listen()).await;
    let (path, token) = (queue.path(), queue.token());
    let request =
        format!("GET {path}?timeout=60&ttr=3600 HTTP/1.1\r\nHost: x\r\nX-Token: {token}\r\n\r\n");
    assert!(gone.send(request).await);
    let mut reader = client.get_connection().unwrap();
    let leased = async || {
        let keys: Vec<String> = redis::cmd("KEYS")
            .arg("tg:*:q:1")
            .query(&mut reader)
            .unwrap();
        let mut get = redis::cmd("HGET");
        let leased: Option<u64> = get.arg(&keys[0]).arg("leased").query(&mut reader).unwrap();
        leased.filter(|jobs| *jobs == 1).ok_or("no job is leased")
    };
    eventually("the reserve is executed", LIMIT, leased).await;
    set_right("-evalsha");
    drop(gone);
    slow.api.wait_for_waiting_consumers(0).await;
    slow.proxy.set(NetworkConditions::default());
    let is_refused = async || {
        let refused = r#"command="release",status="error""#;
        let calls = "infra_lmstfy_redis_qps";
        match slow.api.metric_with_label(calls, refused).await {
            0.0 => Err("no call failed"),
            _ => Ok(()),
        }
    };
    eventually("Redis refuses the release", LIMIT, is_refused).await;
    let released = "tidegate_jobs_released_total";
    assert_eq!(slow.api.metric(released).await, 0.0);
    set_right("+evalsha");
    let is_released = async || match slow.api.metric(released).await {
        1.0 => Ok(()),
        other => Err(other),
    };
    eventually("the job is released", LIMIT, is_released).await;
    let job = queue.consume().ttr_s(60).job().await.unwrap();
    assert_eq!((job.id, job.remain_tries), (id, 0));
}
