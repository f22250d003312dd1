//! Commands whose connections break.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;
use tidegate_testkit::NativeClient;

use super::SERVER;
use super::command_line::CommandLine;

/// Longer than the server needs for a page.
const EXECUTION: Duration = Duration::from_secs(1);

/// Connections to a server that break with a request that has a text.
struct BrokenConnections {
    at: &'static str,
    /// How many such requests break one. Later ones are answered.
    times: usize,
    /// Whether the server executes the request, so that only the answer is lost.
    is_executed: bool,
}

impl BrokenConnections {
    /// A command line that uses them.
    fn to(self, cli: &CommandLine) -> CommandLine {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = cli.url.trim_start_matches("http://").to_owned();
        let left = Arc::new(AtomicUsize::new(self.times));
        let ways = Arc::new(self);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (ways, left) = (Arc::clone(&ways), Arc::clone(&left));
                let server = TcpStream::connect(&server).unwrap();
                ways.pass_on(client.unwrap(), server, left);
            }
        });
        CommandLine {
            namespace: cli.namespace,
            ..CommandLine::unconnected(&url, &cli.key)
        }
    }

    fn pass_on(
        self: Arc<Self>,
        mut client: TcpStream,
        mut server: TcpStream,
        left: Arc<AtomicUsize>,
    ) {
        let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        thread::spawn(move || io::copy(&mut answers, &mut back));
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = client.read(&mut bytes) {
                let order = Ordering::Relaxed;
                let breaks = String::from_utf8_lossy(&bytes[..read]).contains(self.at)
                    && left
                        .fetch_update(order, order, |left| left.checked_sub(1))
                        .is_ok();
                if breaks {
                    let _ = client.shutdown(Shutdown::Write);
                }
                if (!breaks || self.is_executed) && server.write_all(&bytes[..read]).is_err() {
                    break;
                }
                if breaks {
                    thread::park_timeout(if self.is_executed {
                        EXECUTION
                    } else {
                        Duration::ZERO
                    });
                    break;
                }
            }
            // One that is closed already needs nothing more.
            let _ = (
                client.shutdown(Shutdown::Both),
                server.shutdown(Shutdown::Both),
            );
        });
    }
}

/// A look of several requests whose second one fails.
#[tokio::test]
async fn jobs_of_a_page_are_printed_although_the_next_page_fails() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "pages").await;
    let native = NativeClient::new(stack.api(0), cli.namespace).await;
    for jobs in [1000, 1] {
        let jobs = json!({"jobs": vec![json!({"payload": 1, "delay": "1h"}); jobs]});
        let published = native.call("POST", "/queues/t/jobs/batch", &jobs).await;
        published.expect(200);
    }
    let ways = BrokenConnections {
        at: "cursor=",
        times: usize::MAX,
        is_executed: false,
    };
    let ended = ways.to(&cli).run_with(&["tail", "t", "--all"], "");
    assert_eq!(ended.code, 3, "{}", ended.error);
    assert_eq!(ended.out.lines().count(), 1000, "{}", ended.error);
}

/// An answer that is lost while many jobs are changed: the page is repeated, and no job is left.
#[tokio::test]
async fn an_action_on_many_jobs_goes_on_after_a_lost_answer() {
    const JOBS: usize = 1000;
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "acts").await;
    let native = NativeClient::new(stack.api(0), cli.namespace).await;
    for _ in 0..2 {
        let jobs = json!({"jobs": vec![json!({"payload": 1, "delay": "1h"}); JOBS]});
        let published = native.call("POST", "/queues/t/jobs/batch", &jobs).await;
        published.expect(200);
    }
    let ways = BrokenConnections {
        at: "\"cursor\"",
        times: 1,
        is_executed: true,
    };
    let counts = ways.to(&cli).json(&["job", "act", "t", "cancel"]);
    let changed = counts["changed"].as_u64().unwrap();
    // The lost answer is not counted.
    assert!(changed >= JOBS as u64, "{counts}");
    let queue = cli.json(&["queue", "show", "t"]);
    assert_eq!(queue["jobs"]["delayed"], 0, "{queue}");
}

/// The server executes each request, and its answers are lost.
#[tokio::test]
async fn a_failed_publish_or_call_says_whether_the_job_is_stored() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "stored").await;
    let native = NativeClient::with_scopes(stack.api(0), cli.namespace, &["read"]).await;
    let reader = cli.with_key(native.key());
    let error = reader.error(1, &["publish", "q", "{}"]);
    assert!(error.ends_with("; the job was not stored\n"), "{error}");

    let ways = BrokenConnections {
        at: "POST",
        times: usize::MAX,
        is_executed: true,
    };
    let call = ["call", "q", "{}", "--key", "k", "--wait", "1s"];
    let error = ways.to(&cli).error(3, &call);
    let last = "; the job may have been stored; look for it: tidegate job ls q\n";
    assert!(error.ends_with(last), "{error}");
    let first = error.lines().next().unwrap();
    assert!(
        first.contains("WARN") && first.contains("; retrying"),
        "{error}"
    );
    let jobs = cli.json(&["job", "ls", "q"]);
    assert_eq!(jobs.as_array().unwrap().len(), 1, "{jobs}");

    // Only the wait fails.
    let ways = BrokenConnections {
        at: "/result?wait",
        times: usize::MAX,
        is_executed: false,
    };
    let error = ways
        .to(&cli)
        .error(3, &["call", "r", "{}", "--wait", "22s"]);
    assert!(
        error.contains(" is stored. Read its result later: tidegate job result r "),
        "{error}"
    );
}
