//! Requests that the admin ports refuse, and those that they answer meanwhile.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tidegate_testkit::{Daemon, RawHttp, SharedStack, Stack, eventually};
use tokio::net::TcpStream;

static STACK: SharedStack = SharedStack::new(Stack::builder);

/// The 256 connections that an admin port serves, and 16 more that it answers 503 at a time.
const SILENT: usize = 272;
const SOON: Duration = Duration::from_secs(5);
const DELAY: Duration = Duration::from_millis(200);

/// `name:password` in base 64.
const OPS: &str = "b3BzOm9wZW4gc2VzYW1l"; // ops:open sesame
const WRONG: &str = "b3BzOmh1bnRlcjI="; // ops:hunter2
const DESK: &str = "ZGVzazp3b3Jk"; // desk:word
const MISPLACED: &str = "aHVudGVyMjpvcHM="; // hunter2:ops

/// Sends a request with exactly these header lines; returns status and body.
async fn ask(admin: SocketAddr, request: &str, lines: &str) -> (u16, String) {
    let mut http = RawHttp::connect(admin).await;
    let text = format!("{request} HTTP/1.1\r\n{lines}Content-Length: 0\r\n\r\n");
    assert!(http.send(text).await);
    let answer = http.answer().await.unwrap();
    (answer.status, answer.text())
}

fn admins(stack: &Stack) -> [SocketAddr; 2] {
    [stack.api(0).admin(), stack.pump(0).admin()]
}

#[tokio::test]
async fn cross_site_requests_are_refused() {
    let stack = STACK.acquire().await;
    for admin in admins(&stack) {
        let own = format!("Host: {admin}\r\n");
        for (lines, status) in [
            (own.clone(), 200),
            (format!("Host: localhost:{}\r\n", admin.port()), 200),
            (format!("{own}Sec-Fetch-Site: none\r\n"), 200),
            (format!("{own}Origin: http://{admin}\r\n"), 200),
            (format!("{own}Sec-Fetch-Site: cross-site\r\n"), 403),
            (format!("{own}Origin: http://evil.example\r\n"), 403),
            (format!("{own}Origin: null\r\n"), 403),
            // The name servers of that site may answer 127.0.0.1 (DNS rebinding).
            (format!("Host: evil.example:{}\r\n", admin.port()), 403),
        ] {
            let (found, said) = ask(admin, "GET /metrics", &lines).await;
            assert_eq!(found, status, "{lines}: {said}");
            // Balancers send any host.
            let (found, _) = ask(admin, "GET /healthz", &lines).await;
            assert_eq!(found, 200, "{lines}");
        }
    }
    let admin = stack.api(0).admin();
    let foreign = format!("Host: {admin}\r\nOrigin: http://evil.example\r\n");
    let make = "POST /token/pages?description=x";
    let (status, said) = ask(admin, make, &foreign).await;
    assert_eq!(status, 403, "{said}");
    assert!(said.contains("another site"), "{said}");
    let (_, listed) = ask(admin, "GET /token/pages", "").await;
    assert!(!listed.contains("\"x\""), "{listed}");
}

#[tokio::test]
async fn a_failed_login_is_logged_and_delays_the_next() {
    let config = "[accounts]\nops = \"open sesame\"";
    let stack = Stack::builder().pumps(0).api_config(config).start().await;
    let api = stack.api(0);
    let login = async |credentials: &str| {
        let begin = Instant::now();
        let lines = format!("Authorization: Basic {credentials}\r\n");
        let (status, _) = ask(api.admin(), "GET /limits", &lines).await;
        (status, begin.elapsed())
    };
    let failures = || api.log().matches("failed login").count();
    assert_eq!(login(OPS).await.0, 200);
    assert_eq!(ask(api.admin(), "GET /limits", "").await.0, 401);
    assert_eq!(failures(), 0);
    let begin = Instant::now();
    assert_eq!(login(WRONG).await.0, 401);
    assert_eq!(login(OPS).await.0, 200);
    let took = begin.elapsed();
    assert!(took >= DELAY, "{took:?}");
    // A client that does not wait for the answer delays the next login too.
    let begin = Instant::now();
    let mut hurried = RawHttp::connect(api.admin()).await;
    let line = format!("GET /limits HTTP/1.1\r\nAuthorization: Basic {WRONG}\r\n\r\n");
    assert!(hurried.send(line).await);
    // A thread writes the lines.
    let until_logged = async |lines: usize| {
        eventually("it is logged", SOON, async || match failures() {
            found if found == lines => Ok(()),
            found => Err(found),
        })
        .await;
    };
    until_logged(2).await;
    drop(hurried);
    assert_eq!(login(OPS).await.0, 200);
    let took = begin.elapsed();
    assert!(took >= DELAY, "{took:?}");
    assert_eq!(login(MISPLACED).await.0, 401);
    until_logged(3).await;
    let log = api.log();
    let known = log.matches("account=\"ops\"").count();
    let unknown = log.matches("account=\"unknown\"").count();
    assert_eq!((known, unknown), (2, 1), "{log}");
    assert!(log.contains("peer=\"127.0.0.1:"), "{log}");
    assert!(!log.contains("hunter2"), "{log}");
    stack.finish().await;
}

/// Many clients at 127.0.0.1 try passwords of the account `ops`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_passwords_lock_out_no_other_address_and_account() {
    const CLIENTS: usize = 40;
    let config = "[accounts]\nops = \"open sesame\"\ndesk = \"word\"";
    let stack = Stack::builder().pumps(0).api_config(config).start().await;
    let admin = stack.api(0).admin();
    let request = |credentials: &str| {
        format!("GET /limits HTTP/1.1\r\nAuthorization: Basic {credentials}\r\n\r\n")
    };
    let wrong = request(WRONG);
    let attacks = (0..CLIENTS).map(|_| {
        let wrong = wrong.clone();
        tokio::spawn(async move {
            let mut http = RawHttp::connect(admin).await;
            while http.send(&wrong).await {
                let answer = http.answer().await.map(|answer| answer.status);
                assert!(matches!(answer, Some(401 | 429)), "{answer:?}");
                // A client that is refused at once does not take the whole machine.
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
    });
    let attacks: Vec<_> = attacks.collect();
    tokio::time::sleep(2 * DELAY).await;
    for (host, credentials) in [(1, DESK), (2, OPS)] {
        let began_at = Instant::now();
        for _ in 0..25 {
            let own = std::net::Ipv4Addr::new(127, 0, 0, host);
            let mut http = RawHttp::connect_from(own, admin).await;
            assert!(http.send(request(credentials)).await);
            let status = http.answer().await.unwrap().status;
            assert_eq!(status, 200, "127.0.0.{host}");
        }
        let took = began_at.elapsed();
        assert!(took < SOON, "127.0.0.{host}: {took:?}");
    }
    attacks.iter().for_each(tokio::task::JoinHandle::abort);
    stack.finish().await;
}

/// A limit of those that wait is for those behind a failed login only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bursts_of_valid_logins_are_admitted() {
    let config = "[accounts]\nops = \"open sesame\"";
    let stack = Stack::builder().pumps(0).api_config(config).start().await;
    let admin = stack.api(0).admin();
    for _ in 0..4 {
        let login = |_| {
            tokio::spawn(async move {
                let lines = format!("Authorization: Basic {OPS}\r\n");
                ask(admin, "GET /limits", &lines).await.0
            })
        };
        for status in (0..150).map(login).collect::<Vec<_>>() {
            assert_eq!(status.await.unwrap(), 200);
        }
    }
    stack.finish().await;
}

#[tokio::test]
async fn silent_connections_do_not_block_an_admin_port() {
    let stack = Stack::builder().start().await;
    let daemons: [&Daemon; 2] = [stack.api(0), stack.pump(0)];
    for daemon in daemons {
        let mut silent = Vec::new();
        for _ in 0..SILENT {
            silent.push(TcpStream::connect(daemon.admin()).await.unwrap());
        }
        let begin = Instant::now();
        for path in ["/healthz", "/metrics", "/readyz"] {
            let (status, said) = ask(daemon.admin(), &format!("GET {path}"), "").await;
            assert_eq!(status, 200, "{path}: {said}");
        }
        let took = begin.elapsed();
        assert!(took < SOON, "{took:?}");
    }
    stack.finish().await;
}
