//! A deployment with a listener for the protocol, and its client.

use std::net::{Ipv4Addr, SocketAddr};

use serde_json::{Value, json};
use tidegate_testkit::stack::StackBuilder;
use tidegate_testkit::{Answer, RawHttp, Stack, free_port};

/// The namespace of the listener.
pub(crate) const NAMESPACE: &str = "shop";

/// A deployment whose API has a listener for the protocol.
#[derive(Debug)]
pub(crate) struct YouzanStack {
    pub(crate) stack: Stack,
    pub(crate) client: YouzanClient,
}

/// A client that opens a connection for each command.
#[derive(Debug, Clone)]
pub(crate) struct YouzanClient {
    pub(crate) address: SocketAddr,
    pub(crate) headers: Vec<(String, String)>,
}

/// The number of jobs in Redis, in any state.
pub(crate) async fn stored_jobs(stack: &Stack) -> u64 {
    let totals = stack.totals().await;
    totals.delayed + totals.ready + totals.leased + totals.dead
}

impl YouzanStack {
    /// Starts it with further keys of the table `youzan`, or other tables behind them.
    pub(crate) async fn start(settings: &str) -> Self {
        Self::start_with(Stack::builder(), settings).await.0
    }

    /// The same with other daemons. Returns also the settings of the API.
    pub(crate) async fn start_with(builder: StackBuilder, settings: &str) -> (Self, String) {
        let port = free_port().expect("a free port");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let table =
            format!("[youzan]\nlisten = \"{address}\"\nnamespace = \"{NAMESPACE}\"\n{settings}");
        let started = Self {
            stack: builder.api_config(&table).start().await,
            client: YouzanClient {
                address,
                headers: Vec::new(),
            },
        };
        (started, table)
    }
}

impl YouzanClient {
    /// Sends a request, and returns the answer.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        let mut http = RawHttp::connect(self.address).await;
        let body = body.to_string();
        http.request("POST", path, &self.headers, body.as_bytes())
            .await;
        http.answer().await.expect("an answer")
    }

    /// Sends a command, and returns the fields of the answer.
    pub(crate) async fn command(&self, command: &Value) -> Value {
        self.post("/", command).await.expect(200).json()
    }

    /// Sends a command that succeeds.
    pub(crate) async fn done(&self, command: Value) {
        let answer = self.command(&command).await;
        assert_eq!(answer["success"], json!(true), "{command}: {answer}");
        assert_eq!(answer["id"], command["id"], "{command}: {answer}");
    }

    /// Adds a job with a TTR of a minute.
    pub(crate) async fn add(&self, topic: &str, id: &str, delay_s: u64, body: &str) {
        self.add_with_ttr(topic, id, delay_s, 60, body).await;
    }

    pub(crate) async fn add_with_ttr(
        &self,
        topic: &str,
        id: &str,
        delay_s: u64,
        ttr_s: u64,
        body: &str,
    ) {
        let fields = json!({"command": "add", "topic": topic, "id": id, "delay": delay_s, "TTR": ttr_s, "body": body});
        self.done(fields).await;
    }

    pub(crate) async fn finish(&self, id: &str) {
        self.done(json!({"command": "finish", "id": id})).await;
    }

    pub(crate) async fn delete(&self, id: &str) {
        self.done(json!({"command": "delete", "id": id})).await;
    }

    /// Reserves a job of one of these topics, and waits for it up to `timeout_s`. Returns its id and body.
    pub(crate) async fn pop(&self, topics: &str, timeout_s: u64) -> Option<(String, String)> {
        let fields = json!({"command": "pop", "topic": topics, "timeout": timeout_s});
        let answer = self.command(&fields).await;
        assert_eq!(answer["success"], json!(true), "{answer}");
        let text = |name: &str| answer[name].as_str().expect("a text").to_owned();
        let found = (text("id"), text("value"));
        (!found.0.is_empty()).then_some(found)
    }

    /// Expects that the next job of a topic, which may be due soon, is this one.
    #[track_caller]
    pub(crate) fn expect_pop(
        &self,
        topics: &str,
        id: &str,
        body: &str,
    ) -> impl Future<Output = ()> + use<> {
        let at = std::panic::Location::caller();
        let (client, topics) = (self.clone(), topics.to_owned());
        let expected = Some((id.to_owned(), body.to_owned()));
        async move {
            let found = client.pop(&topics, 30).await;
            assert_eq!(found, expected, "{at}");
        }
    }
}
