//! The daemons under test, and an ordinary client that runs meanwhile.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_testkit::{Answer, QueueClient, RawHttp, Stack, eventually, print_figure};

/// Used by the grammar and by the files of the corpus, which are sent unchanged.
pub(crate) const NAMESPACE: &str = "fuzz";
pub(crate) const TOKEN: &str = "fuzz-token-000000000";
/// `ops:open sesame` for HTTP basic auth.
pub(crate) const CREDENTIALS: &str = "b3BzOm9wZW4gc2VzYW1l";

/// The namespace of the ordinary client. No generated request names it.
const QUIET_NAMESPACE: &str = "quiet";
const QUIET_TOKEN: &str = "quiet-token-00000000";

/// Time limits are short, so that connections of clients that stop sending are closed soon. Headers may be longer than
/// the longest target.
const CONFIG: &str = "
    connections.header_bytes_max = 131072
    connections.header_timeout = \"500ms\"
    connections.idle_timeout = \"5s\"
    connections.write_timeout = \"2s\"
    requests.body_timeout = \"500ms\"
    requests.bulk_bytes_max = 2097152
    [accounts]
    ops = \"open sesame\"
";

/// The memory that the daemon may keep after a campaign: caches, and what its allocator keeps.
const GROWTH_MAX: u64 = 128 * 1024 * 1024;
const SETTLE_LIMIT: Duration = Duration::from_secs(60);
/// 32 logins wait before this one, 200 ms each; the rest is room for more of them.
const LOGIN_MAX: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Port {
    Public,
    Admin,
}

impl Port {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Admin => "admin",
        }
    }
}

#[derive(Debug)]
pub(crate) struct FuzzTarget {
    stack: Stack,
    quiet: QueueClient,
    round_trips: AtomicU64,
}

impl FuzzTarget {
    pub(crate) async fn start() -> Self {
        let stack = Stack::builder().api_config(CONFIG).start().await;
        let quiet = QueueClient::new(&stack.api(0).url(), QUIET_NAMESPACE, "q", QUIET_TOKEN);
        let target = Self {
            stack,
            quiet,
            round_trips: AtomicU64::new(0),
        };
        let path = format!("/token/{QUIET_NAMESPACE}?description=quiet&token={QUIET_TOKEN}");
        target.admin("POST", &path).await.expect(201);
        target.restore().await;
        target
    }

    pub(crate) fn address(&self, port: Port) -> SocketAddr {
        match port {
            Port::Public => self.stack.api(0).listen(),
            Port::Admin => self.stack.api(0).admin(),
        }
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        self.stack.api(0).resident_bytes()
    }

    /// Failed logins of other requests delay this one, or make the API answer 429.
    async fn admin(&self, method: &str, path: &str) -> Answer {
        let credentials = format!("Basic {CREDENTIALS}");
        let headers = [("Authorization".to_owned(), credentials)];
        eventually("a login is admitted", LOGIN_MAX, async || {
            let mut http = RawHttp::connect(self.address(Port::Admin)).await;
            http.request(method, path, &headers, b"").await;
            match http.answer().await.expect("the admin port answers") {
                crowded if crowded.status == 429 => Err(crowded),
                answer => Ok(answer),
            }
        })
        .await
    }

    /// Creates the token again, which a request may have deleted, and deletes its limit, which one may have set.
    /// Otherwise all later requests would be refused.
    pub(crate) async fn restore(&self) {
        let path = format!("/token/{NAMESPACE}?description=fuzz&token={TOKEN}");
        let made = self.admin("POST", &path).await;
        assert!([201, 400].contains(&made.status), "{made}");
        let path = format!("/token/{NAMESPACE}/{TOKEN}/limit");
        self.admin("DELETE", &path).await.expect(200);
    }

    /// Publishes, consumes and acks a job over new connections, as an ordinary client.
    pub(crate) async fn round_trip(&self) {
        let queue = self.quiet.with_separate_connections();
        let number = self.round_trips.fetch_add(1, Ordering::Relaxed);
        let body = format!("job {number}");
        let id = queue.publish(body.clone()).ttl_s(600).id().await;
        let job = queue.consume().timeout_s(10).job().await;
        let job = job.expect("the published job is there");
        assert_eq!((&job.id, job.text()), (&id, body));
        queue.ack(&id).await;
        assert_eq!(queue.size().await, 0);
        self.admin("GET", "/version").await.expect(200);
    }

    /// Checks that the daemons run and have not panicked.
    pub(crate) fn check_daemons(&self) -> Result<(), String> {
        for daemon in [self.stack.api(0), self.stack.pump(0)] {
            let log = daemon.log();
            if let Some(at) = log.find("panicked") {
                let message: String = log[at..].chars().take(1000).collect();
                return Err(format!("a daemon panicked: {message}"));
            }
            if !daemon.is_running() {
                return Err(format!("a daemon has ended: {log}"));
            }
        }
        Ok(())
    }

    /// Removes what was published, so that Redis does not fill up.
    pub(crate) async fn tidy_up(&self) {
        for queue in crate::values::QUEUES {
            let queue = QueueClient::new(&self.stack.api(0).url(), NAMESPACE, queue, TOKEN);
            // A request may have deleted the token: the next call removes the jobs.
            let _ = queue.try_raw("DELETE", &queue.path()).await;
        }
    }

    /// Checks that the memory has grown little since `before`.
    pub(crate) fn check_memory(&self, before: u64) {
        let growth = self.resident_bytes().saturating_sub(before);
        print_figure(&format!(
            "memory of the api: {} KiB more than after the corpus, {} KiB at most",
            growth / 1024,
            self.stack.api(0).resident_bytes_peak() / 1024
        ));
        assert!(growth < GROWTH_MAX, "{growth} bytes");
    }

    /// No consumer waits, no connection is left, the daemons run, and no job is lost.
    pub(crate) async fn finish(self) {
        let api = self.stack.api(0);
        api.wait_for_waiting_consumers(0).await;
        let closed = async || {
            let open = api
                .metric_with_label("tidegate_http_connections", "public")
                .await;
            // The ordinary client may keep one.
            if open <= 1.0 { Ok(()) } else { Err(open) }
        };
        eventually("all connections are closed", SETTLE_LIMIT, closed).await;
        self.round_trip().await;
        self.check_daemons().unwrap();
        print_figure(&format!(
            "round trips of an ordinary client meanwhile: {}",
            self.round_trips.load(Ordering::Relaxed)
        ));
        self.stack.finish().await;
    }
}
