//! A running program of a client.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::language::DriverProgram;

/// The longest time to an answer. A call waits for up to 20 s.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
const EVENT_LIMIT: Duration = Duration::from_secs(45);

/// The most events that are not looked at yet: more than any scenario has.
const EVENTS_MAX: usize = 50_000;

/// The answers that are waited for, by the numbers of their commands.
type Answers = Arc<Mutex<HashMap<u64, oneshot::Sender<Value>>>>;

/// The program of a client that runs. Dropping it kills the program.
pub(crate) struct Driver {
    child: Child,
    input: ChildStdin,
    answers: Answers,
    events: mpsc::Receiver<Value>,
    number: u64,
}

/// A command that was sent.
pub(crate) struct PendingAnswer {
    command: String,
    answer: oneshot::Receiver<Value>,
}

impl PendingAnswer {
    /// The whole answer.
    async fn whole(self) -> Value {
        let answer = timeout(ANSWER_LIMIT, self.answer).await;
        match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => panic!("{}: the program ended without an answer", self.command),
            Err(_) => panic!("{}: no answer within {ANSWER_LIMIT:?}", self.command),
        }
    }

    /// The answer to a command that succeeds.
    pub(crate) async fn ok(self) -> Value {
        let command = self.command.clone();
        let mut answer = self.whole().await;
        assert!(answer.get("ok").is_some(), "{command}: {answer}");
        answer["ok"].take()
    }

    /// The error of a command that fails.
    pub(crate) async fn error(self) -> Value {
        let command = self.command.clone();
        let mut answer = self.whole().await;
        assert!(answer["error"].is_object(), "{command}: {answer}");
        answer["error"].take()
    }
}

impl Driver {
    pub(crate) async fn start(
        program: &DriverProgram,
        server: SocketAddr,
        key: &str,
        namespace: &str,
    ) -> Self {
        let mut command = Command::from(program.command());
        command
            .env("TIDEGATE_URL", format!("http://{server}"))
            .env("TIDEGATE_KEY", key)
            .env("TIDEGATE_NAMESPACE", namespace)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let started = command.spawn();
        let mut child = started.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let input = child.stdin.take().expect("a pipe");
        let output = child.stdout.take().expect("a pipe");
        let answers = Answers::default();
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        tokio::spawn(read(output, Arc::clone(&answers), sender));
        Self {
            child,
            input,
            answers,
            events,
            number: 0,
        }
    }

    /// Sends a command with these fields.
    pub(crate) async fn send(&mut self, verb: &str, fields: Value) -> PendingAnswer {
        let mut command = json!({"id": self.number, "do": verb});
        let Value::Object(fields) = fields else {
            panic!("{fields} is no object");
        };
        command.as_object_mut().unwrap().extend(fields);
        let answer = self.expect_answer();
        let line = format!("{command}\n");
        let written = self.input.write_all(line.as_bytes()).await;
        written.unwrap_or_else(|error| panic!("{command}: {error}"));
        let command = command.to_string().chars().take(300).collect();
        PendingAnswer { command, answer }
    }

    /// Takes the number of the next command, and waits for its answer from now on.
    fn expect_answer(&mut self) -> oneshot::Receiver<Value> {
        let (sender, answer) = oneshot::channel();
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.insert(self.number, sender);
        self.number += 1;
        answer
    }

    /// The answer to a command that succeeds.
    pub(crate) async fn ok(&mut self, verb: &str, fields: Value) -> Value {
        self.send(verb, fields).await.ok().await
    }

    /// The error of a command that fails.
    pub(crate) async fn error(&mut self, verb: &str, fields: Value) -> Value {
        self.send(verb, fields).await.error().await
    }

    /// The next event of the worker.
    pub(crate) async fn event(&mut self) -> Value {
        let event = timeout(EVENT_LIMIT, self.events.recv()).await;
        let event = event.unwrap_or_else(|_| panic!("no event within {EVENT_LIMIT:?}"));
        event.expect("the program runs")
    }

    /// Waits for the next event, which has this name.
    pub(crate) async fn expect_event(&mut self, name: &str) -> Value {
        let event = self.event().await;
        assert_eq!(event["event"], name, "{event}");
        event
    }

    /// Whether no event comes within this time.
    pub(crate) async fn is_silent(&mut self, time: Duration) -> bool {
        timeout(time, self.events.recv()).await.is_err()
    }

    /// The next event of a program that has ended.
    pub(crate) async fn left(&mut self) -> Option<Value> {
        self.events.recv().await
    }

    fn pid(&self) -> i32 {
        let pid = self.child.id().expect("the program runs");
        i32::try_from(pid).expect("a process id")
    }

    /// Sends a signal to the program.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid()).expect("a process id");
        rustix::process::kill_process(pid, signal).expect("the program runs");
    }

    /// Waits until the program has ended, and returns its status.
    pub(crate) async fn status(&mut self) -> Option<i32> {
        let ended = timeout(EVENT_LIMIT, self.child.wait()).await;
        let ended = ended.unwrap_or_else(|_| panic!("it still runs after {EVENT_LIMIT:?}"));
        ended.expect("a status").code()
    }
}

async fn read(output: ChildStdout, answers: Answers, events: mpsc::Sender<Value>) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(mut value) = serde_json::from_str::<Value>(&line) else {
            panic!("the program wrote {line:?}, which is no JSON");
        };
        let Some(number) = value["id"].as_u64() else {
            if events.send(value).await.is_err() {
                return;
            }
            continue;
        };
        let mut waiting = answers.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.remove(&number) {
            Some(answer) => drop(answer.send(value.take())),
            None => panic!("the program answered {line:?}, which is the answer to no command"),
        }
    }
    // Whoever waits for an answer learns that there is none.
    answers
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clear();
}
