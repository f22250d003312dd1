//! Daemons with the same pool settings.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tidegate_testkit::{Daemon, DaemonProgram, QueueClient, eventually, print_figure};

/// Low enough for the limit on open files of any machine, since a lower limit logs a warning.
const CONNECTIONS_MAX: &str = "200";

/// Daemons with the same settings.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) apis: Vec<Daemon>,
    pub(crate) pumps: Vec<Daemon>,
    folder: Option<TempDir>,
}

impl Fleet {
    /// Starts this many APIs and pumps; `pool` has the lines of the table `[pool.default]`.
    pub(crate) async fn start(apis: usize, pumps: usize, pool: &str) -> Self {
        Self::start_with_lease(apis, pumps, pool, "1s").await
    }

    /// The same with pumps that have this lease.
    pub(crate) async fn start_with_lease(
        apis: usize,
        pumps: usize,
        pool: &str,
        lease: &str,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("settings.toml");
        std::fs::write(&config, format!("[pool.default]\n{pool}")).unwrap();
        let arguments = ["--config".to_owned(), config.display().to_string()];
        let environment = [("TIDEGATE_CONNECTIONS__CONNECTIONS_MAX", CONNECTIONS_MAX)];
        let start = async |program, name: &str, arguments: &[String], folder: &Path| {
            let environment: &[_] = match program {
                DaemonProgram::Api => &environment,
                DaemonProgram::Pumpd | DaemonProgram::Relayd => &[],
            };
            Daemon::start_with(program, name, arguments, environment, folder).await
        };
        let mut fleet = Self {
            apis: Vec::new(),
            pumps: Vec::new(),
            folder: None,
        };
        for number in 0..apis {
            let name = format!("api-{number}");
            let daemon = start(DaemonProgram::Api, &name, &arguments, folder.path()).await;
            fleet.apis.push(daemon);
        }
        for number in 0..pumps {
            let name = format!("pump-{number}");
            let arguments = [&arguments[..], &["--lease".to_owned(), lease.to_owned()]].concat();
            let daemon = start(DaemonProgram::Pumpd, &name, &arguments, folder.path()).await;
            fleet.pumps.push(daemon);
        }
        fleet.folder = Some(folder);
        fleet
    }

    /// A queue with a new token, through the first API.
    pub(crate) async fn queue(&self, name: &str) -> QueueClient {
        self.queue_in("shop", name).await
    }

    /// The same in another namespace.
    pub(crate) async fn queue_in(&self, namespace: &str, name: &str) -> QueueClient {
        QueueClient::with_new_token(&self.apis[0], "default", namespace, name).await
    }

    pub(crate) fn daemons(&self) -> impl Iterator<Item = &Daemon> {
        self.apis.iter().chain(&self.pumps)
    }

    /// The logs of all daemons.
    pub(crate) fn logs(&self) -> String {
        self.daemons().map(Daemon::log).collect()
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.daemons().map(Daemon::pid).collect()
    }

    /// Whether all daemons still run.
    pub(crate) fn all_run(&self) -> bool {
        self.daemons().all(Daemon::is_running)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if std::thread::panicking() {
            print_figure(&self.logs());
            let kept = self.folder.take().map(TempDir::keep);
            print_figure(&format!(
                "logs are kept in {}",
                kept.unwrap_or_default().display()
            ));
        }
    }
}

/// Uses all that the daemons do: delays, leases that expire, waiting consumers, dead letters, tokens and limits.
pub(crate) async fn live_through(fleet: &Fleet) {
    static LIVES: AtomicU32 = AtomicU32::new(0);
    let name = format!("life-{}", LIVES.fetch_add(1, Ordering::Relaxed));
    let queue = fleet.queue(&name).await;
    // A waiting consumer is woken by a doorbell, a delayed job is moved by a pump.
    let waiting = tokio::spawn(
        queue
            .with_separate_connections()
            .consume()
            .timeout_s(20)
            .ttr_s(1)
            .job(),
    );
    fleet.apis[0].wait_for_waiting_consumers(1).await;
    let id = queue.publish("delayed").delay_s(1).tries(2).id().await;
    assert_eq!(waiting.await.unwrap().unwrap().id, id);
    // Its lease expires, and a pump makes it ready again.
    let again = queue.consume().timeout_s(20).ttr_s(60).job().await.unwrap();
    assert_eq!((again.id.as_str(), again.remain_tries), (id.as_str(), 0));
    queue.ack(&id).await;
    // A job dies, is counted, respawned and deleted.
    let id = queue.publish("dies").tries(1).id().await;
    let _ = queue.consume().ttr_s(1).job().await.unwrap();
    eventually(
        "a job dies",
        Duration::from_secs(20),
        async || match queue.dead_size().await {
            1 => Ok(()),
            other => Err(other),
        },
    )
    .await;
    assert_eq!(queue.respawn(5, 60).await, 1);
    assert_eq!(queue.peek_job(&id).await.expect(200).status, 200);
    assert_eq!(queue.size().await, 1);
    queue.destroy().await;
    queue.publish("short").ttl_s(1).id().await;
    queue.purge_dead(5).await;
    // A limit allows one publish.
    let limit = format!(
        "{}/token/shop/{}/limit",
        fleet.apis[0].admin_url(),
        queue.token()
    );
    let body = r#"{"read": 0, "write": 1, "interval": 60}"#;
    let set = reqwest::Client::new()
        .post(limit)
        .body(body)
        .send()
        .await
        .unwrap();
    assert_eq!(set.status().as_u16(), 201, "{}", set.text().await.unwrap());
    let limited = async || match queue.publish("x").send().await.unwrap().status {
        429 => Ok(()),
        other => Err(other),
    };
    eventually("the limit is known", Duration::from_secs(20), limited).await;
    let token = format!("{}/token/shop/{}", fleet.apis[0].admin_url(), queue.token());
    let gone = reqwest::Client::new().delete(token).send().await.unwrap();
    assert_eq!(gone.status().as_u16(), 204);
    use_an_api_key(&fleet.apis[0]).await;
}

/// Creates, lists and revokes an API key.
async fn use_an_api_key(api: &Daemon) {
    let (http, keys) = (
        reqwest::Client::new(),
        format!("{}/v1/shop/keys", api.admin_url()),
    );
    let body = r#"{"scopes":["read"],"description":"links"}"#;
    let created = http.post(&keys).body(body).send().await.unwrap();
    assert_eq!(created.status().as_u16(), 201);
    let created: serde_json::Value = created.json().await.unwrap();
    let one = format!("{keys}/{}", created["key"]["id"].as_str().unwrap());
    for (request, status) in [
        (http.get(&keys), 200),
        (http.delete(&one), 200),
        (http.delete(&one), 404),
    ] {
        assert_eq!(request.send().await.unwrap().status().as_u16(), status);
    }
}
