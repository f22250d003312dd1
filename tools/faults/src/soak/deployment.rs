//! The deployment of a soak: one Redis, two APIs and two pumps, of which one each restarts.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tidegate_testkit::{
    Daemon, DaemonProgram, NativeClient, RawHttp, RedisControl, RedisOptions, RedisServer,
    run_until_exit,
};

use super::load::{WIDE_LANES, WIDE_QUEUE};
use crate::wire::queue_name;

/// Namespace of all jobs.
pub(super) const NAMESPACE: &str = "soak";
/// Processes of each program.
pub(super) const EACH: usize = 2;
/// Time limit of a stop. An API drains for up to 10 s.
const STOP_LIMIT: Duration = Duration::from_secs(60);
const AUDIT_LIMIT: Duration = Duration::from_secs(900);

/// The names of all processes. This program is the last one.
pub const PROCESSES: [&str; 6] = ["api-0", "api-1", "pump-0", "pump-1", "redis", "driver"];
/// The processes that restart, in turns.
pub const RESTARTED: [&str; 2] = ["api-1", "pump-1"];

/// Credentials of both wires.
#[derive(Debug, Clone)]
pub(super) struct SoakCredentials {
    pub(super) token: String,
    pub(super) api_key: String,
}

/// The running deployment. Dropping it kills everything.
#[derive(Debug)]
pub(super) struct SoakDeployment {
    // Dropped in this order: Redis ends last.
    apis: Vec<Daemon>,
    pumps: Vec<Daemon>,
    redis: RedisServer,
}

/// The result of an audit.
#[derive(Debug)]
pub(super) enum AuditEnd {
    /// Its findings, as printed.
    Done(Vec<String>),
    /// Its output.
    Failed(String),
}

impl SoakDeployment {
    /// Starts everything. Logs are written to `folder`.
    pub(super) async fn start(folder: &Path) -> Self {
        let redis = tokio::task::spawn_blocking(|| RedisOptions::new().start()).await;
        let redis = redis.expect("redis starts");
        let arguments = ["--redis".to_owned(), redis.url()];
        let (mut apis, mut pumps) = (Vec::new(), Vec::new());
        for number in 0..EACH {
            let name = format!("api-{number}");
            apis.push(Daemon::start(DaemonProgram::Api, &name, &arguments, folder).await);
            let name = format!("pump-{number}");
            pumps.push(Daemon::start(DaemonProgram::Pumpd, &name, &arguments, folder).await);
        }
        Self { apis, pumps, redis }
    }

    /// Addresses of the APIs.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.apis.iter().map(Daemon::listen).collect()
    }

    /// Addresses of all admin ports.
    pub(super) fn admin_addresses(&self) -> Vec<SocketAddr> {
        let all = self.apis.iter().chain(&self.pumps);
        all.map(Daemon::admin).collect()
    }

    pub(super) async fn redis_control(&self) -> RedisControl {
        RedisControl::connect(&self.redis.url()).await
    }

    /// Creates the credentials, and gives one queue its lanes.
    pub(super) async fn prepare(&self) -> SoakCredentials {
        let api = &self.apis[0];
        let path = format!("/v1/{NAMESPACE}/queues/{}/lanes", queue_name(WIDE_QUEUE));
        let lanes = json!({"open": WIDE_LANES}).to_string();
        admin(api, "PUT", &path, lanes.as_bytes(), 200).await;
        let path = format!("/token/{NAMESPACE}?description=soak");
        let token = admin(api, "POST", &path, b"", 201).await;
        SoakCredentials {
            token: token["token"].as_str().expect("a token").to_owned(),
            api_key: NativeClient::new(api, NAMESPACE).await.key().to_owned(),
        }
    }

    /// Process ids, in the order of [`PROCESSES`].
    pub(super) fn pids(&self) -> [u32; PROCESSES.len()] {
        [
            self.apis[0].pid(),
            self.apis[1].pid(),
            self.pumps[0].pid(),
            self.pumps[1].pid(),
            self.redis.pid().unwrap_or_default(),
            std::process::id(),
        ]
    }

    /// Stops one of [`RESTARTED`] (SIGTERM), waits until it has ended, and starts it again.
    pub(super) async fn restart(&self, name: &str) {
        let daemon = match name {
            "api-1" => &self.apis[1],
            _ => &self.pumps[1],
        };
        daemon.stop(STOP_LIMIT).await;
        daemon.restart().await;
    }

    /// Audits the Redis, without repairs.
    pub(super) async fn audit(&self) -> AuditEnd {
        let url = self.redis.url();
        let flags = ["audit", "--redis", &url, "--json"];
        let ended = run_until_exit(DaemonProgram::Pumpd, &flags, AUDIT_LIMIT).await;
        match ended.code {
            Some(0 | 1) => {
                let found = ended
                    .log
                    .lines()
                    .filter(|line| line.contains("\"finding\""));
                AuditEnd::Done(found.map(str::to_owned).collect())
            }
            _ => AuditEnd::Failed(ended.log),
        }
    }
}

async fn admin(
    api: &Daemon,
    method: &str,
    path: &str,
    body: &[u8],
    status: u16,
) -> serde_json::Value {
    let mut http = RawHttp::connect(api.admin()).await;
    http.request(method, path, &[], body).await;
    let answer = http.answer().await.expect("the admin port answers");
    answer.expect(status).json()
}
