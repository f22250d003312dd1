//! What the tests share: a server, relay daemons, and the state of queues.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate::{BatchJob, Client};
use tidegate_local_broker::{
    BrokerKind, BrokerProgram, LocalBroker, LocalBrokerError, obtain, workspace_cache,
};
use tidegate_testkit::{
    Daemon, DaemonProgram, NativeClient, RawHttp, SharedStack, Stack, eventually,
};

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The server of most tests. Each uses a namespace of its own.
pub(crate) static SERVER: SharedStack = SharedStack::new(Stack::builder);

/// A queue whose jobs are relayed.
pub(crate) struct RelayedQueue {
    pub(crate) native: NativeClient,
    pub(crate) client: Client,
    pub(crate) url: String,
    pub(crate) namespace: String,
}

pub(crate) const QUEUE: &str = "q";

impl RelayedQueue {
    pub(crate) async fn new(stack: &Stack, namespace: &str) -> Self {
        let native = NativeClient::new(stack.api(0), namespace).await;
        let url = stack.api(0).url();
        let client = Client::builder(&url)
            .key(native.key())
            .namespace(namespace)
            .build()
            .unwrap();
        Self {
            native,
            client,
            url,
            namespace: namespace.to_owned(),
        }
    }

    /// The queue as an end of a relay: `source` or `sink`.
    pub(crate) fn as_end(&self, end: &str, queue: &str) -> String {
        let (url, namespace, key) = (&self.url, &self.namespace, self.native.key());
        format!(
            "[relay.r.{end}]\nkind = \"tidegate\"\nurl = \"{url}\"\nnamespace = \"{namespace}\"\nqueue = \"{queue}\"\n\
             api_key = \"{key}\"\n"
        )
    }

    /// Publishes jobs `first..last` with their numbers as payloads, and returns their ids.
    pub(crate) async fn publish(&self, numbers: std::ops::Range<usize>) -> BTreeSet<String> {
        let mut ids = BTreeSet::new();
        let numbers: Vec<usize> = numbers.collect();
        for numbers in numbers.chunks(500) {
            let jobs = numbers.iter().map(|number| {
                let job = BatchJob::raw(QUEUE, number.to_string(), "text/plain");
                job.attribute("number", number.to_string())
            });
            let published = self.client.publish_batch(jobs).await.unwrap();
            ids.extend(published.into_iter().map(|job| job.unwrap().id.to_string()));
        }
        ids
    }

    /// Publishes a job of so many bytes, and returns its id.
    pub(crate) async fn publish_large(&self, bytes: usize) -> String {
        let job = BatchJob::raw(QUEUE, vec![b'x'; bytes], "text/plain");
        let published = self.client.publish_batch([job]).await.unwrap();
        published
            .into_iter()
            .next()
            .unwrap()
            .unwrap()
            .id
            .to_string()
    }

    /// Counts of a queue, by state.
    pub(crate) async fn counts(&self, queue: &str) -> Value {
        let view = self
            .native
            .get(&format!("/queues/{queue}"))
            .await
            .expect(200)
            .json();
        view["jobs"].clone()
    }

    /// Closes a queue for new jobs, or opens it.
    pub(crate) async fn set_closed(&self, queue: &str, closed: bool) {
        let policy = format!("/queues/{queue}/policy");
        let change = json!({"closed": closed});
        self.native
            .call("PATCH", &policy, &change)
            .await
            .expect(200);
    }

    /// Waits until [`QUEUE`] has no job left.
    pub(crate) async fn drained(&self) {
        self.drained_of(QUEUE).await;
    }

    /// Waits until a queue has no job left.
    pub(crate) async fn drained_of(&self, queue: &str) {
        eventually("all jobs are delivered", LIMIT, async || {
            let counts = self.counts(queue).await;
            let left: u64 = ["ready", "delayed", "leased", "dead"]
                .iter()
                .filter_map(|state| counts[state].as_u64())
                .sum();
            if left == 0 { Ok(()) } else { Err(counts) }
        })
        .await;
    }

    pub(crate) async fn job(&self, id: &str) -> Value {
        self.native
            .get(&format!("/queues/{QUEUE}/jobs/{id}"))
            .await
            .json()
    }
}

/// A relay daemon with a relay `r`.
pub(crate) struct RelayDaemon {
    pub(crate) daemon: Daemon,
    _folder: TempDir,
}

/// Settings that make tests short: a short lease, and short pauses.
pub(crate) const SHORT: &str = "[relay.r]\nlease = \"9s\"\nbreaker_failures = 2\nbreaker_pause = \"100ms\"\nbreaker_pause_max = \"200ms\"\n";

impl RelayDaemon {
    /// Starts a daemon with these settings.
    pub(crate) async fn start(settings: &[&str]) -> Self {
        Self::start_with(settings, &[]).await
    }

    /// Starts a daemon with these settings and environment variables.
    pub(crate) async fn start_with(settings: &[&str], environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("tidegate-relay-")
            .tempdir()
            .unwrap();
        let file = folder.path().join("relayd.toml");
        std::fs::write(&file, settings.concat()).unwrap();
        let arguments = ["--config".to_owned(), file.display().to_string()];
        let daemon = Daemon::start_with(
            DaemonProgram::Relayd,
            "relayd",
            &arguments,
            environment,
            folder.path(),
        )
        .await;
        Self {
            daemon,
            _folder: folder,
        }
    }

    /// What it says about its first relay.
    pub(crate) async fn status(&self) -> Value {
        self.all_status().await["items"][0].clone()
    }

    /// What it says about its relays.
    pub(crate) async fn all_status(&self) -> Value {
        let mut http = RawHttp::connect(self.daemon.admin()).await;
        http.request("GET", "/relays", &[], b"").await;
        http.answer().await.unwrap().expect(200).json()
    }

    /// Waits until a field of its status satisfies the check.
    pub(crate) async fn status_has(&self, what: &str, check: impl Fn(&Value) -> bool) {
        eventually(what, LIMIT, async || {
            let status = self.status().await;
            if check(&status) { Ok(()) } else { Err(status) }
        })
        .await;
    }
}

/// A private broker.
pub(crate) async fn start_broker(kind: BrokerKind) -> LocalBroker {
    start_broker_with(kind, |program| LocalBroker::start(program, None)).await
}

/// A private broker that `start` starts.
pub(crate) async fn start_broker_with(
    kind: BrokerKind,
    start: impl FnOnce(BrokerProgram) -> Result<LocalBroker, LocalBrokerError> + Send + 'static,
) -> LocalBroker {
    let started = tokio::task::spawn_blocking(move || {
        let program = obtain(kind, &workspace_cache(), &mut |_| {}).unwrap();
        start(program).unwrap()
    });
    started.await.unwrap()
}

/// Kills a broker, waits, and starts it again.
pub(crate) async fn crash(mut broker: LocalBroker, pause: Duration) -> LocalBroker {
    tokio::task::spawn_blocking(move || {
        broker.kill();
        std::thread::park_timeout(pause);
        broker.restart().unwrap();
        broker
    })
    .await
    .unwrap()
}

/// Stops a broker, and starts it again.
pub(crate) async fn restart(mut broker: LocalBroker) -> LocalBroker {
    tokio::task::spawn_blocking(move || {
        assert!(broker.stop(), "SIGTERM ends it");
        broker.restart().unwrap();
        broker
    })
    .await
    .unwrap()
}
